"""The outcome comes from the supervisor's lines, whatever happens to statuses and supervisors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest

import lastout
from lastout import identity
from lastout.evidence import events
from lastout.evidence.settled import settled
from lastout.graces import Graces
from lastout.identity import Alive
from lastout.testing import RudeAgent, wait_gone

pytestmark = pytest.mark.anyio

QUICK = Graces(stdin=0.2, term=0.4, reap=1.0)


async def ready(process: lastout.Process) -> None:
    assert process.stdout is not None
    assert await process.stdout.receive() == b"ready\n"


async def test_a_stray_waitpid_takes_no_status_away(state: Path) -> None:
    """A thread that reaps whatever it finds, as careless programs do on SIGCHLD."""
    read_end, write_end = os.pipe()
    taken: list[int] = []
    took_the_front = threading.Event()

    def reap_everything() -> None:
        os.read(read_end, 1)
        while True:
            try:
                taken.append(os.waitpid(-1, 0)[0])
            except ChildProcessError:
                return
            if process.pid in taken:
                took_the_front.set()

    thread = threading.Thread(target=reap_everything)
    thread.start()
    try:
        async with lastout.open_process(["sh", "-c", "read x; exit 7"], state=state) as process:
            os.write(write_end, b"x")
            assert process.stdin is not None
            await process.stdin.send(b"go\n")
            assert took_the_front.wait(30), "our own loop stands still meanwhile"
            outcome = await process.wait()
    finally:
        os.close(write_end)
        thread.join()
        os.close(read_end)
    assert (outcome.returncode, outcome.verdict) == (7, "exited")


async def test_an_ignored_sigchld_takes_no_status_away(tmp_path: Path, anyio_backend: str) -> None:
    """With SIGCHLD ignored the kernel throws every status away."""
    program = f"""
        import signal, anyio, lastout
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        async def main():
            async with lastout.open_process(["sh", "-c", "exit 9"], state={str(tmp_path)!r}) as p:
                print((await p.wait()).returncode)
        anyio.run(main, backend={anyio_backend!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True)
    assert (done.stdout, done.stderr) == (b"9\n", b"")


@pytest.mark.parametrize("popen", [False, True])
async def test_the_front_is_gone_before_anybody_can_hold_it(
    tmp_path: Path, anyio_backend: str, popen: bool
) -> None:
    """With SIGCHLD ignored its number is free the moment it ends, if that is before the pidfd."""
    program = f"""
        import os, signal, anyio, lastout
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        pidfd_open = os.pidfd_open
        def late(pid, *flags):
            with open(pidfd_open(pid)) as front:
                import select
                select.select([front], [], [])
            while os.path.exists(f"/proc/{{pid}}"):
                pass
            return pidfd_open(pid, *flags)
        os.pidfd_open = late
        argv = ["sh", "-c", "exit 9"]
        async def main():
            async with lastout.open_process(argv, state={str(tmp_path)!r}) as p:
                print((await p.wait()).returncode)
        if {popen}:
            print(lastout.Popen(argv, state={str(tmp_path)!r}).wait())
        else:
            anyio.run(main, backend={anyio_backend!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True)
    assert (done.stdout, done.stderr) == (b"9\n", b"")


@pytest.mark.parametrize("record", [True, None])
async def test_the_front_killed_the_root_s_status_is_still_known(
    state: Path, tmp_path: Path, record: bool | None
) -> None:
    """The keeper goes on: SIGTERM, the grace, and the root's own status, on the socket too."""
    agent = RudeAgent(tmp_path, ttl=30)
    async with lastout.open_process(
        agent.argv, state=state, graces=QUICK, record=record
    ) as process:
        await ready(process)
        identity.signal(process.front, signal.SIGKILL)
        outcome = await process.wait()
    assert agent.survivors() == []
    assert outcome.returncode == 143
    assert outcome.verdict == "exited"
    assert outcome.stop is not None
    assert outcome.stop.trigger == "peer-lost"


async def test_the_keeper_killed_the_front_says_what_is_known(state: Path, tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ttl=30)
    async with lastout.open_process(agent.argv, state=state, graces=QUICK) as process:
        await ready(process)
        identity.signal(process.keeper, signal.SIGKILL)
        outcome = await process.wait()
    assert agent.survivors() == []
    assert outcome.tree_gone
    assert outcome.verdict == "exited"
    assert outcome.returncode == -signal.SIGKILL, "the kernel ends the root with its keeper"


@pytest.mark.still
async def test_both_killed_nothing_is_invented(state: Path, tmp_path: Path) -> None:
    """Nobody is left who could have seen the tree's end: the forced step ends what it can prove."""
    agent = RudeAgent(tmp_path, roles=(), ttl=30)
    async with lastout.open_process(agent.argv, state=state, graces=QUICK) as process:
        await ready(process)
        identity.signal(process.front, signal.SIGSTOP)
        identity.signal(process.keeper, signal.SIGKILL)
        identity.signal(process.front, signal.SIGKILL)
        outcome = await process.wait()
    assert agent.survivors() == []
    assert outcome.verdict in ("killed", "exited")
    assert outcome.root_gone
    assert outcome.returncode is None, "nobody saw the status"


@pytest.mark.still
async def test_a_front_that_is_stopped_is_resumed_by_a_stop(state: Path, tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ttl=30)
    async with lastout.open_process(agent.argv, state=state, graces=QUICK) as process:
        await ready(process)
        identity.signal(process.front, signal.SIGSTOP)
        with anyio.fail_after(QUICK.max_stop + lastout.MARGIN + 2):
            outcome = await process.stop()
    assert agent.survivors() == []
    assert outcome.verdict == "exited"


@pytest.mark.still
async def test_a_supervisor_that_hangs_is_overdue_and_forced(state: Path, tmp_path: Path) -> None:
    """Somebody stops front and keeper again and again: the forced step is the last resort."""
    agent = RudeAgent(tmp_path, roles=("session", "daemon"), ignores_term=True, ttl=30)
    async with lastout.open_process(agent.argv, state=state, graces=QUICK) as process:
        await ready(process)
        program = (
            "import os, signal, sys, time\n"
            "fds = [os.pidfd_open(int(word)) for word in sys.argv[1:]]\n"
            "end = time.monotonic() + 20\n"
            "print('on', flush=True)\n"
            "while time.monotonic() < end:\n"
            "    for fd in fds:\n"
            "        try: signal.pidfd_send_signal(fd, signal.SIGSTOP)\n"
            "        except ProcessLookupError: sys.exit()\n"
            "    time.sleep(0.002)\n"
        )
        bully = subprocess.Popen(
            [sys.executable, "-c", program, str(process.front.pid), str(process.keeper.pid)],
            stdout=subprocess.PIPE,
        )
        assert bully.stdout is not None
        try:
            bully.stdout.readline()
            with anyio.fail_after(QUICK.max_stop + lastout.MARGIN + 3 + 2):
                outcome = await process.stop()
        finally:
            bully.kill()
            bully.wait()
            bully.stdout.close()
    assert agent.survivors() == []
    assert identity.still_alive(process.keeper) is Alive.NO
    assert outcome.verdict in ("killed", "exited")
    assert outcome.root_gone
    forced = [
        event for event in settled(process.record or "").events if isinstance(event, events.Forced)
    ]
    assert forced, "the record tells of the forced step"


async def test_the_owner_killed_nobody_is_left(tmp_path: Path, anyio_backend: str) -> None:
    """A crash of the program does what leaving the block does, without any Python."""
    agent = RudeAgent(tmp_path, roles=("tool", "session", "daemon"), ttl=30)
    program = f"""
        import anyio, lastout
        async def main():
            async with lastout.open_process(
                {agent.argv!r}, state={str(tmp_path / "state")!r}, graces="codex-sdk"
            ) as p:
                assert await p.stdout.receive() == b"ready\\n"
                print(p.front.pid, p.keeper.pid, p.record, flush=True)
                await anyio.sleep_forever()
        anyio.run(main, backend={anyio_backend!r})
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    front, keeper, record = owner.stdout.readline().split()
    supervisors = [identity.take(int(front)), identity.take(int(keeper))]
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert wait_gone(supervisors, 10) == []
    assert agent.survivors() == []
    contents = settled(record)
    assert isinstance(contents.final, events.TreeGone)
    stops = [event for event in contents.events if isinstance(event, events.StopBegan)]
    assert [stop.trigger for stop in stops] in (["owner-died"], ["owner-hung-up"], ["stdin-ended"])
