"""The look at an exited root: one, bounded, before the one reap; with pipes and on a terminal."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import lastout
from harness.pauses import stillness
from lastout import identity
from lastout.evidence import events
from lastout.identity import Alive
from lastout.observe import Completed, Failed, Observation, TimedOut
from lastout.proctable import read_stat

from .conftest import QUICK, Opener

pytestmark = pytest.mark.anyio

ROUNDS = 30
SHORT = 0.1


# In a session of its own for certain when the next command runs.
ESCAPEE = "mkfifo $$.gate; setsid sh -c 'echo > $0; exec sleep 62' $$.gate & read x < $$.gate"


def state(pid: int) -> str:
    return read_stat(pid).state


async def gone(member: events.Member) -> None:
    """The end of a process that is pinned by the look, from its pidfd."""
    try:
        fd = os.pidfd_open(member.pid)
    except ProcessLookupError:
        return
    try:
        if identity.take(member.pid).start == member.start:
            await anyio.wait_readable(fd)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


async def told(process: lastout.Process) -> list[events.Event]:
    """Every line of a run that is over."""
    return [event async for event in process.events()]


async def order(process: lastout.Process) -> list[str]:
    """The names of the keeper's lines from the root's end on."""
    names = [type(line).__name__ for line in await told(process) if line.source == "keeper"]
    if stillness.needed:  # what make load stops and continues is told too
        names = [name for name in names if name != "Signalled"]
    return names[names.index("RootExited") :]


async def test_the_exit_is_seen_before_the_reap(opened: Opener) -> None:
    for number in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(["sh", "-c", f"exit {number}"], observer=observer) as process:
            async with await observer.opportunity() as opportunity:
                assert opportunity.process is process
                assert opportunity.root == process.root
                assert state(process.root.pid) == "Z"
                assert identity.take(process.root.pid).start == process.root.start
                assert opportunity.pgid == opportunity.session == process.root.pid
                assert 0 < opportunity.seconds_left <= 2
                # The exit report waits: two seconds are left, and nothing of it comes in the first.
                with anyio.move_on_after(0.005) as scope:
                    await process.wait_root()
                assert scope.cancelled_caught
                assert state(process.root.pid) == "Z"
            assert isinstance(await observer.observation(), Completed)
            assert await process.wait_root() == number
            assert (await process.wait()).returncode == number
            assert not await process.members()
        with pytest.raises(ProcessLookupError):
            identity.open_pidfd(process.root)
        assert (await order(process))[:4] == [
            "RootExited",
            "OpportunityBegan",
            "Observed",
            "Reaped",
        ]
        assert (await order(process)).count("Reaped") == 1


async def look(observer: lastout.ExitObserver) -> Any:
    """The opportunity; None where a loaded machine was too slow for so short a bound."""
    try:
        return await observer.opportunity()
    except lastout.OpportunityExpired:
        return None


async def test_a_stalled_observer_is_waited_for_no_longer_than_the_bound(opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(SHORT)
        async with opened(["true"], observer=observer) as process:
            opportunity = await look(observer)
            outcome = await process.wait()
            observation = await observer.observation()
            assert isinstance(observation, TimedOut)
            if opportunity is None:
                continue
            # A loaded machine may see the end of the bound late, never early.
            assert observation.held >= SHORT
            with pytest.raises(lastout.OpportunityExpired) as refused:
                await opportunity.acknowledge()
            assert refused.value.observation == observation
            with pytest.raises(lastout.OpportunityExpired):
                await opportunity.tree()
            assert outcome.returncode == 0
            assert outcome.stop is None


async def test_an_acknowledgement_that_comes_too_late_is_refused(opened: Opener) -> None:
    """Sent without having heard of the end: the supervisor refuses it, and changes nothing."""
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(SHORT)
        async with opened(["sh", "-c", "sleep 60 & exit 3"], observer=observer) as process:
            opportunity = await look(observer)
            if opportunity is None:
                continue
            await anyio.sleep(opportunity.seconds_left + 0.01)
            with pytest.raises(lastout.OpportunityExpired) as refused:
                await opportunity.acknowledge()
            assert isinstance(refused.value.observation, TimedOut)
            assert (await process.wait()).returncode == 3


@pytest.mark.parametrize(
    "what", ["opportunity", "observer", "observer before the exit", "explicitly"]
)
async def test_who_drops_the_look_holds_nobody_up(what: str, opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer: Any = lastout.ExitObserver(2)
        seen: list[events.Event] = []
        argv = ["true"] if what != "observer before the exit" else ["sh", "-c", "sleep 0.05"]
        async with opened(argv, observer=observer) as process:
            opportunity: Any = None
            if what in ("opportunity", "explicitly"):
                opportunity = await observer.opportunity()
            if what == "explicitly":
                opportunity.drop()
            if what.startswith("observer"):
                observer = None
            opportunity = None
            gc.collect()
            await process.wait()
            seen = [event async for event in process.events()]
        (line,) = (event for event in seen if isinstance(event, events.Observed))
        assert (line.outcome, line.why) == ("failed", "dropped")
        assert line.held_us < 1_900_000


async def test_a_descendant_that_ignores_the_hang_up_is_attributed_to_the_group(
    opened: Opener, tmp_path: Path
) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        script = f"trap '' HUP; sleep 61 & {ESCAPEE}; exit 0"
        async with opened(["sh", "-c", script], observer=observer, cwd=tmp_path) as process:
            async with await observer.opportunity() as opportunity:
                (member,) = await opportunity.group()
                assert member.pgid == process.root.pid
                tree = await opportunity.tree()
                assert len(tree) == 2
                assert member.pid in {each.pid for each in tree}
                # What is listed is pinned: nothing has been signalled yet.
                assert all(identity.take(each.pid).start == each.start for each in tree)
            outcome = await process.wait()
            assert {gone.pid for gone in outcome.stopped} == {each.pid for each in tree}
            assert outcome.tree_gone


async def test_a_signal_reaches_the_group_in_the_window(opened: Opener, tmp_path: Path) -> None:
    """The root has ended, and its number is still its own: so is its group's."""
    child = "trap 'echo heard > heard; exit' USR1; echo > $1; read y < $1"
    (tmp_path / "child.sh").write_text(child)
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        script = "trap '' HUP; mkfifo $$.gate; sh child.sh $$.gate & read x < $$.gate; exit 5"
        async with opened(["sh", "-c", script], observer=observer, cwd=tmp_path) as process:
            async with await observer.opportunity() as opportunity:
                (member,) = await opportunity.group()
                process.send_signal(signal.SIGUSR1)
                await gone(member)
                assert await opportunity.group() == []
            assert (await process.wait()).returncode == 5
        assert (tmp_path / "heard").read_text() == "heard\n"
        (tmp_path / "heard").unlink()


async def test_a_stop_works_in_the_window(opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(
            ["sh", "-c", "trap '' HUP; sleep 61 & exit 5"], observer=observer
        ) as process:
            opportunity = await observer.opportunity()
            (member,) = await opportunity.group()
            with pytest.raises(ValueError):
                process.send_signal(signal.SIGTERM)
            process.request_stop("user", by="the test")
            # The leftover hears of the stop at once; the root is held on, and counts for nobody.
            await gone(member)
            assert await opportunity.group() == []
            assert state(process.root.pid) == "Z"
            await opportunity.acknowledge()
            outcome = await process.wait()
            assert (outcome.returncode, outcome.tree_gone) == (5, True)
            assert outcome.stop == lastout.Stop("requested", "user", "the test")


@pytest.mark.quiet  # the longest look there is would be over
async def test_the_look_takes_no_time_from_a_stop_under_way(opened: Opener, tmp_path: Path) -> None:
    """Its leftovers have their grace after the look, however long that took."""
    for _ in range(5):  # each takes the whole of a grace
        observer = lastout.ExitObserver(2)
        script = f"trap 'exit 4' TERM; {ESCAPEE}; echo up; while :; do sleep 0.01; done"
        async with opened(["sh", "-c", script], observer=observer, cwd=tmp_path) as process:
            assert process.stdout is not None
            await process.stdout.receive()
            process.request_stop("user")
            opportunity = await observer.opportunity()
            await anyio.sleep(QUICK.term + 0.01)  # longer than the grace
            assert len(await opportunity.tree()) == 1
            await opportunity.acknowledge()
            outcome = await process.wait()
            assert outcome.tree_gone
        lines = await told(process)
        assert not [x for x in lines if isinstance(x, events.Signalled) and x.signal == "KILL"]


async def test_the_block_is_left_in_the_window(opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(["sh", "-c", "sleep 61 & exit 6"], observer=observer) as process:
            opportunity = await observer.opportunity()
            del opportunity
        assert process.outcome is not None
        assert (process.outcome.returncode, process.outcome.tree_gone) == (6, True)
        assert isinstance(await observer.observation(), Failed)


async def test_nobody_looks_when_the_block_is_left(opened: Opener) -> None:
    """The observer is there, and nobody waits for its opportunity, or ever could: no bound."""
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(["sh", "-c", "sleep 61"], observer=observer) as process:
            pass
        assert process.outcome is not None
        assert process.outcome.tree_gone
        observation = await observer.observation()
        assert isinstance(observation, Failed)
        assert observation.why == "dropped"


async def test_a_look_that_goes_on_holds_the_end_of_the_block_for_the_bound(opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(SHORT)
        async with opened(["true"], observer=observer) as process:
            opportunity = await look(observer)
        assert process.outcome is not None
        assert isinstance(await observer.observation(), TimedOut)
        assert opportunity is None or opportunity.seconds_left < 0


async def test_256_kib_are_drained_fully(opened: Opener) -> None:
    size = 256 << 10
    program = f"import sys; sys.stdout.buffer.write(b'x' * {size})"
    argv = [sys.executable, "-I", "-S", "-c", program]

    async def read(stream: Any, got: list[bytes]) -> None:
        got += [chunk async for chunk in stream]

    for _ in range(ROUNDS):
        got: list[bytes] = []
        observer = lastout.ExitObserver(2)
        async with opened(argv, observer=observer) as process:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, process.stdout, got)
                async with await observer.opportunity():
                    pass
                await process.wait()
        assert sum(map(len, got)) == size


async def test_keeper_lost_in_the_window(opened: Opener) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(["sh", "-c", "sleep 61 & exit 7"], observer=observer) as process:
            opportunity = await observer.opportunity()
            identity.signal(process.keeper, signal.SIGKILL)
            observation = await observer.observation()
            assert isinstance(observation, Failed)
            assert observation.why == "keeper-lost"
            with pytest.raises(lastout.OpportunityExpired):
                await opportunity.acknowledge()
            outcome = await process.wait()
            assert (outcome.returncode, outcome.tree_gone) == (7, True)
        lines = await told(process)
        assert len([x for x in lines if isinstance(x, events.Reaped) and x.who == "root"]) == 1


async def test_front_lost_in_the_window(opened: Opener) -> None:
    """The keeper holds the root, and hears the acknowledgement itself."""
    for _ in range(ROUNDS):
        observer = lastout.ExitObserver(2)
        async with opened(["sh", "-c", "sleep 61 & exit 7"], observer=observer) as process:
            opportunity = await observer.opportunity()
            identity.signal(process.front, signal.SIGKILL)
            await opportunity.acknowledge()
            outcome = await process.wait()
            assert (outcome.returncode, outcome.tree_gone) == (7, True)


async def test_nobody_is_looked_at_twice(opened: Opener) -> None:
    observer = lastout.ExitObserver()
    async with opened(["true"], observer=observer):
        first = await observer.opportunity()
        assert await observer.opportunity() is first
        await first.acknowledge()
        await first.acknowledge()
        with pytest.raises(lastout.OpportunityExpired):
            await observer.opportunity()
    with pytest.raises(ValueError, match="one run"):
        async with opened(["true"], observer=observer):
            pass


async def test_every_exit_is_seen_however_fast(opened: Opener) -> None:
    """The observer is there before the root is: 250 for each loop and each kind, 1,000 in all."""
    true = "/bin/true"
    for _ in range(250):
        observer = lastout.ExitObserver(2)
        async with opened([true], observer=observer, record=None):
            await (await observer.opportunity()).acknowledge()
            result: Observation = await observer.observation()
            assert isinstance(result, Completed)


async def test_nothing_was_started(opened: Opener) -> None:
    observer = lastout.ExitObserver()
    with pytest.raises(FileNotFoundError):
        async with opened(["/no/such/program"], observer=observer):
            pass


async def test_owner_and_tree_after_the_look(opened: Opener) -> None:
    """The identities stay good after the look: exact, so that a pid used again is told apart."""
    observer = lastout.ExitObserver()
    async with opened(["true"], observer=observer) as process:
        async with await observer.opportunity() as opportunity:
            assert identity.still_alive(opportunity.root) is not Alive.YES
        await process.wait()
        assert identity.still_alive(opportunity.root) is Alive.NO
        assert os.getpid() == process.started.owner.pid  # type: ignore[union-attr]
