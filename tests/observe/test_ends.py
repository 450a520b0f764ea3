"""Roots that end in unusual ways, loops that end in the window, and who has no observer."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import lastout
from harness.kernels import needs_children_files
from lastout import supervisor
from lastout.evidence import events, journal
from lastout.observe import ObservationUnsupported
from lastout.proctable import read_stat

from .conftest import QUICK, Opener

LOOP = 20  # rounds of those that start a whole event loop each, or a tracer


@pytest.mark.anyio
async def test_a_root_that_a_signal_kills_with_a_core(opened: Opener, tmp_path: Path) -> None:
    limits = {"CORE": (resource.RLIM_INFINITY, resource.RLIM_INFINITY)}
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("core dumps are limited here")
    observer = lastout.ExitObserver(2)
    script = "kill -ABRT $$"
    async with opened(["sh", "-c", script], observer=observer, cwd=tmp_path, rlimits=limits) as run:
        await (await observer.opportunity()).acknowledge()
        outcome = await run.wait()
        seen = [event async for event in run.events()]
    (exited,) = (event for event in seen if isinstance(event, events.RootExited))
    (reaped,) = (event for event in seen if isinstance(event, events.Reaped))
    # Seen before the reap and told by the reap itself: the same, the core included.
    assert (exited.status, exited.signal, exited.core) == (reaped.status, "ABRT", reaped.core)
    assert outcome.returncode == -signal.SIGABRT


@pytest.mark.anyio
@pytest.mark.still
async def test_a_root_that_is_stopped_has_not_ended(opened: Opener) -> None:
    observer = lastout.ExitObserver(2)
    async with opened(["sh", "-c", "kill -STOP $$; exit 8"], observer=observer) as run:
        while read_stat(run.root.pid).state != "T":
            await anyio.sleep(0.001)
        with anyio.move_on_after(0.05) as scope:
            await observer.opportunity()
        assert scope.cancelled_caught
        os.kill(run.root.pid, signal.SIGCONT)
        await (await observer.opportunity()).acknowledge()
        assert (await run.wait()).returncode == 8


@pytest.mark.anyio
async def test_a_root_that_is_traced(opened: Opener, tmp_path: Path) -> None:
    """Its tracer is told of its end first; ours comes when the tracer has let go, and is true."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    observer = lastout.ExitObserver(2)
    async with opened(["sh", "-c", "echo up; read line; exit 9"], observer=observer) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        await run.stdout.receive()
        tracer = subprocess.Popen(
            ["strace", "-p", str(run.root.pid), "-o", str(tmp_path / "trace")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not traced(run.root.pid):
                await anyio.sleep(0.001)
            await run.stdin.send(b"\n")
            opportunity = await observer.opportunity()
            assert read_stat(run.root.pid).state == "Z"
            await opportunity.acknowledge()
            assert (await run.wait()).returncode == 9
        finally:
            tracer.wait()


def traced(pid: int) -> bool:
    return "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("kind", [lastout.open_process, lastout.open_terminal])
def test_the_event_loop_ends_in_the_window(kind: Callable[..., object], tmp_path: Path) -> None:
    """Held at most for the bound, whoever still looks; and the run is over afterwards."""
    seconds = 0.1
    for _ in range(LOOP):
        observer = lastout.ExitObserver(seconds)
        kept: list[object] = []

        async def main(observer: lastout.ExitObserver, kept: list[object]) -> None:
            argv = ["sh", "-c", "sleep 61 & exit 3"]
            block = kind(argv, observer=observer, graces=QUICK, state=tmp_path / "state")
            async with block as process:  # type: ignore[attr-defined]
                kept += [process, await observer.opportunity()]
                asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # type: ignore[union-attr]
                await asyncio.sleep(60)

        try:
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(main(observer, kept))
        except lastout.OpportunityExpired:  # this test itself was held up for so long
            seconds *= 2
            continue
        process = kept[0]
        assert isinstance(process, lastout.Process)
        assert process.outcome is not None
        assert (process.outcome.returncode, process.outcome.tree_gone) == (3, True)


FORGETFUL = """
import asyncio, gc, sys, lastout
async def main(argv, record):
    observer = lastout.ExitObserver(2)
    async with lastout.open_process(argv, observer=observer, record=record) as process:
        kept.append(await observer.opportunity())
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)
kept = []
loop = asyncio.new_event_loop()
task = loop.create_task(main(["sh", "-c", "sleep 61 & exit 3"], sys.argv[1]))
loop.run_forever()
loop.close()
kept.clear()
del task
gc.collect()
sys.stdin.read()
"""


def test_a_loop_that_is_forgotten_in_the_window(tmp_path: Path) -> None:
    """Closed without ending its tasks, in a process that lives on: nobody waits for the bound."""
    for number in range(3):
        record = tmp_path / f"{number}.jsonl"
        argv = [sys.executable, "-c", FORGETFUL, str(record)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
            told = follow(record)
            assert owner.poll() is None
            assert owner.stdin is not None
            owner.stdin.close()
        assert told.outcome == "failed"
        assert told.why in ("owner-lost", "dropped")


def follow(record: Path) -> events.Observed:
    """The end of the look, once the record has its last line."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        if not record.exists():
            continue
        contents = journal.read(record)
        if contents.final is not None:
            (told,) = (event for event in contents.events if isinstance(event, events.Observed))
            return told
        time.sleep(0.002)
    raise AssertionError(f"{record} has no end")


def test_another_platform_refuses_before_anything_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ObservationUnsupported):
        lastout.ExitObserver()


@pytest.mark.anyio
async def test_a_pid_namespace_refuses_before_anything_is_created(opened: Opener) -> None:
    with pytest.raises(ValueError, match="pidns"):
        async with opened(["true"], observer=lastout.ExitObserver(), contain="pidns"):
            pass


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--observe"], "needs --control"),
        (["--observe-bound", "1"], "is for --observe"),
        (["--observe", "--observe-bound", "2.5"], "at most 2"),
        (["--observe", "--observe-bound", "0"], "more than 0"),
        (["--observe", "--contain", "pidns"], "pidns"),
    ],
)
def test_what_cannot_be_observed_is_not_started(
    options: list[str], sentence: str, tmp_path: Path
) -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        control = [] if "needs" in sentence else ["--control", str(theirs.fileno())]
        done = subprocess.run(
            [supervisor.binary(), *control, *options, "--", "touch", str(tmp_path / "started")],
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[theirs.fileno()],
        )
    assert done.returncode == 125
    assert sentence in done.stderr
    assert not (tmp_path / "started").exists()


@needs_children_files
def test_without_an_observer_there_is_no_system_call_more(tmp_path: Path) -> None:
    """Between seeing the root's end and reaping it: the list of children, and standard descriptors
    let go. That is where a look would be."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    argv = [supervisor.binary(), "--stdin-end", "ignore", "--", "sh", "-c", "exit 3"]
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), *argv], stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 3
    told = trace.read_text().splitlines()
    # Of a call that another process got in between, the first half is the one with its name.
    whole = [line for line in told if " resumed>" not in line or "waitid resumed>" in line]
    lines = [line.split(maxsplit=1) for line in whole]
    seen = next(
        i for i, (_, call) in enumerate(lines) if "CLD_EXITED" in call and "WNOWAIT" in call
    )
    keeper = lines[seen][0]
    calls = [call for pid, call in lines[seen + 1 :] if pid == keeper]
    until = next(i for i, call in enumerate(calls) if call.startswith("wait4("))
    names = Counter(call.split("(")[0].replace("openat", "open") for call in calls[:until])
    # Which of these there are depends on the libc; the others do not.
    for libc in ("getpid", "gettid", "fcntl"):
        names.pop(libc, None)
    assert names == {"open": 1, "read": 2, "close": 1, "dup2": 3}
