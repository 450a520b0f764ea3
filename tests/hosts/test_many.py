"""Many runs from one owner: no thread, counted descriptors, and a clear error before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lastout.spawn import DESCRIPTORS

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
COUNT = 60


def run(program: str, *words: str) -> list[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_no_thread_and_only_the_descriptors_that_are_documented(
    tmp_path: Path, backend: str
) -> None:
    program = """
        import os, sys, anyio, lastout

        async def main():
            alive, go = anyio.Semaphore(0), anyio.Event()

            async def one():
                async with lastout.open_process(["cat"], state=sys.argv[1]) as process:
                    alive.release()
                    await go.wait()
                    assert (await process.stop()).tree_gone

            before = len(os.listdir("/proc/self/fd"))
            async with anyio.create_task_group() as tasks:
                for _ in range(int(sys.argv[2])):
                    tasks.start_soon(one)
                for _ in range(int(sys.argv[2])):
                    await alive.acquire()
                print(len(os.listdir("/proc/self/fd")) - before, len(os.listdir("/proc/self/task")))
                go.set()
            print(len(os.listdir("/proc/self/fd")) - before)

        anyio.run(main, backend=sys.argv[3])
    """
    if backend == "trio":
        pytest.importorskip("trio")
    during, after = run(program, str(tmp_path), str(COUNT), backend)
    assert during.split() == [str(COUNT * (DESCRIPTORS + 2)), "1"]
    assert after == "0"


@pytest.mark.still
def test_an_owner_of_many_idle_runs_is_never_woken(tmp_path: Path) -> None:
    program = """
        import anyio, sys, lastout

        def switches():
            lines = open("/proc/self/status").read().splitlines()
            (told,) = [line for line in lines if line.startswith("voluntary_ctxt_switches")]
            return int(told.split()[1])

        async def main():
            async with lastout.open_process(["cat"], state=sys.argv[1]) as one:
                async with lastout.open_process(["cat"], state=sys.argv[1]) as two:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(one.wait)
                        tasks.start_soon(two.wait)
                        await anyio.sleep(0.5)
                        before = switches()
                        await anyio.sleep(1.5)
                        print(switches() - before)
                        tasks.cancel_scope.cancel()

        anyio.run(main)
    """
    # One for the timer of this program itself. Those that a busy machine takes it off its processor
    # for are counted elsewhere.
    assert int(run(program, str(tmp_path))[0]) < 5


def test_the_limit_is_named_before_anything_starts(tmp_path: Path) -> None:
    program = """
        import contextlib, os, resource, sys, anyio, lastout

        async def main():
            async with lastout.open_process(["cat"], state=sys.argv[1]):
                pass  # everything is imported
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            async with contextlib.AsyncExitStack() as stack:
                runs = []
                try:
                    while True:
                        one = lastout.open_process(["cat"], graces="instant", state=sys.argv[1])
                        runs.append(await stack.enter_async_context(one))
                except lastout.LimitReached as error:
                    assert isinstance(error, OSError) and error.errno == 24
                    print(error)
                with open(f"/proc/self/task/{os.getpid()}/children") as file:
                    children = file.read().split()
                print(len(runs) == len(children))
                print(len(runs))
            print(all(one.outcome.tree_gone for one in runs))

        anyio.run(main)
    """
    error, equal, count, gone = run(program, str(tmp_path))
    assert "RLIMIT_NOFILE is 64" in error
    assert (equal, gone) == ("True", "True")
    assert int(count) >= 6
