"""The accident that leases are for: an agent that still writes while the next one is started.

Any subset of owner, front and keeper is killed in any order, while the writer appends all the time
and other owners want the key. What must never be seen: a write of an older epoch after a grant.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.kernels import needs_inodes
from harness.writers import (
    GRACES,
    Story,
    forked,
    kill,
    launch,
    live,
    note_grant,
    settle_all,
    wait_write,
)
from lastout import identity, sole_writer
from lastout.evidence.events import Started
from lastout.identity import ProcessIdentity

WHO = ("owner", "front", "keeper")
SUBSETS = [
    order for size in (1, 2, 3) for order in itertools.permutations(WHO, size)
]  # 15: every subset, in every order


def one_round(
    directory: Path, order: Sequence[str], *, wrapper: bool, how: signal.Signals, pause: int
) -> Story:
    """An owner with its writer; `order` dies, and the next owner has the key."""
    log, state = directory / "log", directory / "state"
    ready, say = os.pipe()

    def owner() -> None:
        os.close(ready)
        grant = sole_writer.acquire("key", state=state)
        note_grant(log, grant.epoch)
        writer = launch(grant, log, wrapper=wrapper)
        started = writer.wait_started()
        assert started is not None
        grant.commit(started)
        wait_write(log, grant.epoch)
        os.write(say, b"x")
        signal.pause()

    pid = forked(owner)
    os.close(say)
    try:
        assert os.read(ready, 1) == b"x"
        people = {**_people(state), "owner": identity.take(pid)}
        for name in order:
            kill(people[name], how)
            for _ in range(pause):
                os.sched_yield()
        if how is signal.SIGSTOP or "owner" not in order:
            kill(people["owner"])
        os.waitpid(pid, 0)
        grant = sole_writer.acquire("key", state=state, wait=None)
        note_grant(log, grant.epoch)
        next_one = launch(grant, log)
        assert next_one.wait_started() is not None
        wait_write(log, grant.epoch)
        next_one.stop()
        assert grant.release().settled
    finally:
        os.close(ready)
        settle_all(state)
    return Story.read(log)


def _people(state: Path) -> dict[str, ProcessIdentity]:
    stored = sole_writer.open_store(state).get("key")
    assert stored is not None
    assert stored.lease.holder is not None
    found = stored.lease.holder
    assert found.front is not None
    assert found.keeper is not None
    return {"front": found.front, "keeper": found.keeper}


@pytest.mark.parametrize(
    "wrapper",
    [pytest.param(False, id="root writes"), pytest.param(True, id="wrapped", marks=needs_inodes)],
)
@pytest.mark.parametrize("order", SUBSETS, ids=" ".join)
def test_whoever_dies_in_whatever_order(
    tmp_path: Path, order: Sequence[str], wrapper: bool
) -> None:
    story = one_round(tmp_path, order, wrapper=wrapper, how=signal.SIGKILL, pause=0)
    story.check()
    assert len(story.grants) == len(story.writes) == 2


@pytest.mark.parametrize("name", WHO)
@pytest.mark.still
def test_whoever_is_stopped(tmp_path: Path, name: str) -> None:
    """And then the owner dies: a stopped front or keeper is what the recovery must get past."""
    story = one_round(tmp_path, [name], wrapper=False, how=signal.SIGSTOP, pause=0)
    story.check()
    assert len(story.grants) == 2


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_five_hundred_rounds(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("LASTOUT_TEST_SEED", "20261130")))
    for number in range(500):
        directory = tmp_path / str(number)
        directory.mkdir()
        order = chance.choice(SUBSETS)
        wrapper, pause = chance.random() < 0.3, chance.choice([0, 0, 1, 10, 100, 1000])
        how = signal.SIGSTOP if chance.random() < 0.1 else signal.SIGKILL
        try:
            one_round(directory, order, wrapper=wrapper, how=how, pause=pause).check()
        except BaseException as error:
            error.add_note(f"round {number}: {order} {how.name} wrapper={wrapper} pause={pause}")
            raise


POINTS = (
    "asking", "reserved", "spawned", "committed", "running", "stopping", "stopped", "released",
)  # fmt: skip


@pytest.mark.parametrize("where", POINTS)
def test_after_a_crash_at_every_point_the_key_can_be_had_again(tmp_path: Path, where: str) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    log.touch()

    def point(step: str) -> None:
        if step == where:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = forked(lambda: live("key", state, log, point))
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    grant = sole_writer.acquire("key", state=state, wait=None)
    note_grant(log, grant.epoch)
    grant.release()
    story = Story.read(log)
    story.check()
    stored = sole_writer.open_store(state).get("key")
    assert stored is not None
    assert stored.lease.free


@pytest.mark.parametrize(
    ("racers", "rounds"),
    [
        (2, 6),
        (8, 3),
        pytest.param(64, 2, marks=[pytest.mark.torture, pytest.mark.timeout(900)]),
        pytest.param(16, 12, marks=[pytest.mark.torture, pytest.mark.timeout(900)]),
    ],
)
def test_many_race_for_one_key_and_crash_anywhere(tmp_path: Path, racers: int, rounds: int) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    log.touch()
    sole_writer.open_store(state)
    pids = []
    for number in range(racers):
        chance = random.Random(number)

        def race(chance: random.Random = chance) -> None:
            for _ in range(rounds):
                crash = chance.choice([None, None, *POINTS])

                def point(step: str, crash: str | None = crash) -> None:
                    if step == crash:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if step == "running" and crash is None and chance.random() < 0.3:
                        _kill_a_supervisor(state, chance)

                live("key", state, log, point)

        pids.append(forked(race))
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    failed = [one for one in statuses if os.WIFEXITED(one) and os.WEXITSTATUS(one)]
    assert not failed, "a racer had an error that is none of its refusals"
    settled = settle_all(state)
    assert settled == {"key": "free"}, settled
    story = Story.read(log)
    story.check()
    assert len(story.grants) >= racers // 2


def _kill_a_supervisor(state: Path, chance: random.Random) -> None:
    """The racer's own front or keeper, or both."""
    people = _people(state)
    names = chance.choice([["front"], ["keeper"], ["front", "keeper"], ["keeper", "front"]])
    for name in names:
        kill(people[name])


def test_the_same_owner_that_lost_its_handle_gets_its_key_back(tmp_path: Path) -> None:
    """The list of handles is gone, the owner is not: its run counts as ending."""
    import gc

    log, state = tmp_path / "log", tmp_path / "state"
    grant = sole_writer.acquire("key", state=state)
    note_grant(log, grant.epoch)
    writer = launch(grant, log)
    started = writer.wait_started()
    assert isinstance(started, Started)
    grant.commit(started)
    with pytest.raises(sole_writer.Held):
        sole_writer.acquire("key", state=state)
    front = writer.front
    del grant, writer
    gc.collect()
    again = sole_writer.acquire("key", state=state)
    note_grant(log, again.epoch)
    front.wait()
    again.release()
    Story.read(log).check()
    assert GRACES.term < 1
