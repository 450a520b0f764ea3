"""The lines of a run as they come: several listeners, one that leaves, one that reads beside them."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import anyio
import pytest

import lastout
from lastout.control import Control
from lastout.evidence import events
from lastout.evidence.settled import settled
from lastout.graces import Graces

pytestmark = pytest.mark.anyio

QUICK = Graces(stdin=0.2, term=0.4, reap=1.5)


async def lines_of(process: lastout.Process) -> list[events.Event]:
    return [event async for event in process.events()]


async def test_events_are_told_from_the_first_to_the_last(state: Path) -> None:
    async with lastout.open_process(["sh", "-c", "exit 3"], state=state) as process:
        told = await lines_of(process)
        assert isinstance(told[0], events.Started)
        assert isinstance(told[-1], events.TreeGone)
        assert await lines_of(process) == told, "again, for somebody else"
    record = settled(process.record or "")
    assert record.events == told
    assert record.problems == []


async def test_a_closed_link_has_nothing_more_and_says_so() -> None:
    """Closed after the last word and before the socket's end, as a block is left on a busy machine."""
    child = subprocess.Popen(["true"])
    ours, theirs = socket.socketpair()
    control = Control(ours, os.pidfd_open(child.pid))
    with theirs:  # somebody of the run still has it
        await control.wait()
        assert control.read() == []
        assert control.front_gone
        assert not control.ended
        control.close()
        assert control.read() == []
        assert control.ended
    assert (control.front_status, child.wait()) == (0, 0)


async def test_several_can_listen_and_wait_at_once(state: Path) -> None:
    told: list[list[events.Event]] = []
    outcomes: list[lastout.Outcome] = []

    async def listen(process: lastout.Process) -> None:
        told.append(await lines_of(process))

    async def wait(process: lastout.Process) -> None:
        outcomes.append(await process.wait())

    async with lastout.open_process(["sh", "-c", "read x; exit 3"], state=state) as process:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(listen, process)
                tasks.start_soon(wait, process)
            assert process.stdin is not None
            await process.stdin.send(b"go\n")
    assert len(told) == 3
    assert told[0] == told[1] == told[2]
    assert outcomes == [outcomes[0]] * 3
    assert outcomes[0].returncode == 3


async def test_a_cancelled_listener_leaves_the_others_listening(state: Path) -> None:
    """Whoever has the turn reads for all; when it is cancelled, another one reads on."""
    outcomes: list[lastout.Outcome] = []

    async def wait(process: lastout.Process) -> None:
        outcomes.append(await process.wait())

    async with lastout.open_process(["sh", "-c", "read x; exit 3"], state=state) as process:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as first:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(wait, process)
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(wait, process)
                    await anyio.wait_all_tasks_blocked()
                    first.cancel()
            assert process.stdin is not None
            await process.stdin.send(b"go\n")
    assert [outcome.returncode for outcome in outcomes] == [3]


async def test_who_waits_for_a_line_gets_it_whoever_else_reads(state: Path) -> None:
    """Another task's calls read too, and must not take it away from under the one who waits."""
    import time

    heard = anyio.Event()

    async def listen(process: lastout.Process) -> None:
        async for event in process.events():
            if isinstance(event, events.StopBegan):
                heard.set()

    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    async with lastout.open_process(
        ["sh", "-c", script], state=state, graces=Graces(term=20)
    ) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, process)
            await anyio.wait_all_tasks_blocked()
            process.request_stop()
            time.sleep(0.2)  # the loop is kept from running, until its lines have come
            with anyio.CancelScope() as scope:
                scope.cancel()
                await process.wait_root()
            with anyio.fail_after(5):
                await heard.wait()
            await process.stop(grace=0)
