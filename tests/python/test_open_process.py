"""`open_process`: identities, lines, signals and how it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import lastout
from lastout import identity
from lastout.evidence import events
from lastout.evidence.settled import settled
from lastout.graces import Graces
from lastout.identity import Alive
from lastout.testing import RudeAgent

pytestmark = pytest.mark.anyio

QUICK = Graces(stdin=0.2, term=0.4, reap=1.5)


async def lines_of(process: lastout.Process) -> list[events.Event]:
    return [event async for event in process.events()]


async def test_everybody_is_named_by_identity(state: Path) -> None:
    async with lastout.open_process(["cat"], state=state) as process:
        assert process.pid == process.front.pid
        for one in (process.keeper, process.root):
            assert identity.same(one, identity.take(one.pid)) is True
        assert process.started.argv == ("cat",)
        assert process.started.owner_watch == "told"
        assert process.started.owner is not None
        assert process.started.owner.pid == os.getpid()
        members = await process.members()
        assert [(member.pid, member.name) for member in members] == [(process.root.pid, "cat")]
    assert identity.still_alive(process.root) is Alive.NO
    assert identity.still_alive(process.keeper) is Alive.NO
    assert identity.still_alive(process.front) is Alive.NO


async def test_a_root_that_ends_by_itself_is_no_stop(state: Path) -> None:
    async with lastout.open_process(["sh", "-c", "exit 7"], state=state) as process:
        outcome = await process.wait()
    assert (outcome.verdict, outcome.returncode, outcome.stop) == ("exited", 7, None)
    assert outcome.root_status == 7 << 8
    assert outcome == process.outcome
    assert (outcome.run, outcome.record) == (process.run, process.record)


async def test_death_by_a_signal_is_minus_its_number(state: Path) -> None:
    async with lastout.open_process(["sh", "-c", "kill -SEGV $$"], state=state) as process:
        assert (await process.wait()).returncode == -signal.SIGSEGV


async def test_leaving_the_block_stops_the_run(state: Path) -> None:
    async with lastout.open_process(["sleep", "60"], state=state, graces=QUICK) as process:
        assert process.outcome is None
    assert process.outcome is not None
    assert process.outcome.verdict == "exited"
    assert process.outcome.returncode == -signal.SIGTERM
    assert process.outcome.stop == lastout.Stop("requested", "completion")


async def test_an_error_in_the_block_stops_the_run_and_comes_out(state: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with lastout.open_process(["sleep", "60"], state=state, graces=QUICK) as process:
            raise ZeroDivisionError
    assert process.outcome is not None
    assert process.outcome.stop == lastout.Stop("requested", "abort")
    assert process.outcome.tree_gone


async def test_cancelling_the_block_stops_the_run_politely(state: Path, tmp_path: Path) -> None:
    """The root gets SIGTERM and its grace, although the task is cancelled."""
    script = f"trap 'sleep 0.2; echo clean > {tmp_path}/cleaned; exit 0' TERM; echo up; read x"
    with anyio.CancelScope() as scope:
        async with lastout.open_process(["sh", "-c", script], state=state) as process:
            assert process.stdout is not None
            assert await process.stdout.receive() == b"up\n"
            scope.cancel()
            await anyio.sleep_forever()
    assert (tmp_path / "cleaned").read_text() == "clean\n"
    assert process.outcome is not None
    assert (process.outcome.returncode, process.outcome.verdict) == (0, "exited")


async def test_cancelling_again_changes_nothing(state: Path) -> None:
    async def inner(scope: anyio.CancelScope) -> None:
        with scope:
            async with lastout.open_process(
                ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"],
                state=state,
                graces=QUICK,
            ) as process:
                assert process.stdout is not None
                await process.stdout.receive()
                stopped.append(process)
                scope.cancel()
                await anyio.sleep_forever()

    stopped: list[lastout.Process] = []
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inner, scope)
        while not stopped:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert stopped[0].outcome is not None
    assert stopped[0].outcome.verdict == "exited"
    assert stopped[0].outcome.returncode == -signal.SIGKILL


async def test_cancelled_while_it_starts(state: Path, tmp_path: Path) -> None:
    """Whatever had been started by then is gone afterwards."""
    for delay in (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.003):
        agent = RudeAgent(tmp_path, roles=("tool", "session"), ttl=30)
        with anyio.move_on_after(delay):
            async with lastout.open_process(agent.argv, state=state, graces="instant"):
                pass
        assert agent.survivors() == []


async def test_nobody_of_a_rude_agent_is_left(state: Path, tmp_path: Path) -> None:
    roles = ("tool", "session", "daemon", "forker")
    agent = RudeAgent(tmp_path, roles=roles, ttl=30)
    async with lastout.open_process(agent.argv, state=state, graces=QUICK) as process:
        assert process.stdout is not None
        assert await process.stdout.receive() == b"ready\n"
        assert len(agent.survivors()) >= 5
        outcome = await process.stop(by="test")
    assert agent.survivors() == []
    assert outcome.verdict == "exited"
    assert outcome.returncode == 143
    assert outcome.stop == lastout.Stop("requested", "user", "test")
    signed = {entry.identity.pid for entry in agent.present() if entry.role in roles[:3]}
    assert signed <= {member.pid for member in outcome.stopped}


async def test_a_stop_with_grace_0_does_not_wait(state: Path) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    async with lastout.open_process(
        ["sh", "-c", script], state=state, graces=Graces(term=30)
    ) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        with anyio.fail_after(10):
            outcome = await process.stop(grace=0)
    assert outcome.returncode == -signal.SIGKILL


async def test_a_grace_can_be_shortened_during_a_stop(state: Path) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    async with lastout.open_process(
        ["sh", "-c", script], state=state, graces=Graces(term=30)
    ) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.stop)
                async for event in process.events():
                    if isinstance(event, events.StopBegan):
                        break
                await process.stop(grace=0)
    assert process.outcome is not None
    assert process.outcome.verdict == "exited"


@pytest.mark.parametrize("grace", [-1, float("nan")])
async def test_a_grace_that_is_none_is_refused(state: Path, grace: float) -> None:
    async with lastout.open_process(["cat"], state=state) as process:
        with pytest.raises(ValueError, match="grace"):
            await process.stop(grace=grace)
        assert await process.members()


async def test_a_reason_that_no_supervisor_knows_is_refused(state: Path) -> None:
    unknown: Any = "quit"
    async with lastout.open_process(["cat"], state=state) as process:
        for ask in (process.stop, process.stop_others):
            with pytest.raises(ValueError, match=r"'timeout', .* not 'quit'"):
                await ask(reason=unknown)
        with pytest.raises(ValueError, match="not 'quit'"):
            process.request_stop(reason=unknown)
        assert await process.members()  # nothing was sent: nobody is stopping it


async def test_stopping_what_has_ended_tells_how_it_ended(state: Path) -> None:
    async with lastout.open_process(["true"], state=state) as process:
        first = await process.wait()
        assert await process.stop() is first
        assert await process.wait() is first


async def test_a_timeout_stops_the_run(state: Path) -> None:
    async with lastout.open_process(["sleep", "60"], state=state, timeout=0.1) as process:
        outcome = await process.wait()
    assert outcome.stop is not None
    assert outcome.stop.trigger == "timeout"
    assert outcome.returncode == -signal.SIGTERM


async def test_the_end_of_stdin_stops_the_run(state: Path) -> None:
    async with lastout.open_process(["sleep", "60"], state=state, graces=QUICK) as process:
        assert process.stdin is not None
        await process.stdin.aclose()
        outcome = await process.wait()
    assert outcome.stop == lastout.Stop("stdin-ended")


async def test_the_end_of_stdin_can_be_just_an_end(state: Path) -> None:
    script = "cat; sleep 0.3; echo done"
    async with lastout.open_process(
        ["sh", "-c", script], state=state, stdin_end="ignore", graces="instant"
    ) as process:
        assert process.stdin is not None
        await process.stdin.aclose()
        outcome = await process.wait()
        assert process.stdout is not None
        assert await process.stdout.receive() == b"done\n"
    assert (outcome.returncode, outcome.stop) == (0, None)


async def test_signals_go_to_the_root(state: Path) -> None:
    script = "trap 'echo usr1; exit 4' USR1; echo up; while :; do sleep 0.05; done"
    async with lastout.open_process(["sh", "-c", script], state=state) as process:
        assert process.stdout is not None
        assert await process.stdout.receive() == b"up\n"
        process.send_signal(signal.SIGUSR1)
        assert (await process.wait()).returncode == 4
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
            with pytest.raises(ValueError, match="stop"):
                process.send_signal(number)


async def test_a_signal_to_nobody_is_said(state: Path) -> None:
    async with lastout.open_process(["true"], state=state) as process:
        await process.wait()
        with pytest.raises(ProcessLookupError):
            process.send_signal(signal.SIGUSR1)


async def test_the_root_s_end_is_told_before_its_leftovers_end(state: Path) -> None:
    script = "setsid sleep 60 >/dev/null 2>&1 & exit 5"
    async with lastout.open_process(
        ["sh", "-c", script], state=state, leftovers="wait", graces=QUICK
    ) as process:
        assert await process.wait_root() == 5
        assert process.outcome is None
        (member,) = await process.members()
        assert member.pid != process.root.pid
    assert process.outcome is not None
    assert process.outcome.tree_gone
    assert len(process.outcome.stopped) == 1


async def test_no_record_is_written_when_none_is_wanted(state: Path) -> None:
    async with lastout.open_process(["true"], state=state, record=None) as process:
        outcome = await process.wait()
    assert (process.record, outcome.record, outcome.verdict) == (None, None, "exited")
    assert not state.exists()


async def test_the_record_can_be_a_path(tmp_path: Path) -> None:
    record = tmp_path / "mine.jsonl"
    async with lastout.open_process(["true"], record=record, run="mine") as process:
        await process.wait()
    assert isinstance(settled(record).final, events.TreeGone)
    assert process.record == str(record)


async def test_ten_at_once(state: Path) -> None:
    async def one(number: int) -> None:
        script = f"read x; exit {number}"
        async with lastout.open_process(["sh", "-c", script], state=state) as process:
            assert process.stdin is not None
            await process.stdin.send(b"x\n")
            assert (await process.wait()).returncode == number

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(one, number)


async def test_no_descriptor_is_left_open(state: Path) -> None:
    async def once() -> None:
        async with lastout.open_process(["cat"], stderr=lastout.PIPE, state=state):
            pass

    await once()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await once()
        with pytest.raises(FileNotFoundError):
            async with lastout.open_process(["/nonexistent"], state=state):
                pass
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.quiet
async def test_there_is_no_thread_and_no_polling(state: Path) -> None:
    import threading

    threads = threading.enumerate()
    async with lastout.open_process([sys.executable, "-c", "input()"], state=state) as process:
        assert threading.enumerate() == threads
        ticks = 0
        # Whatever the loop does while the run is quiet it would do here; nothing wakes it up.
        with anyio.move_on_after(0.3):
            async for _ in process.events():
                ticks += 1
        assert ticks == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a pid namespace of its own")
async def test_a_stronger_tier_can_be_asked_for(state: Path, tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, roles=("tool", "session", "daemon"), ttl=30)
    async with lastout.open_process(
        agent.argv, state=state, graces=QUICK, contain="pidns"
    ) as process:
        assert process.stdout is not None
        assert await process.stdout.receive() == b"ready\n"
        assert process.started.contain == "pidns"
        assert process.started.init is not None
        outcome = await process.stop()
    assert (outcome.verdict, outcome.returncode) == ("exited", 143)
    assert outcome.stopped, "those that had moved to sessions of their own"
    assert {identity.still_alive(one) for one in outcome.stopped} == {Alive.NO}
