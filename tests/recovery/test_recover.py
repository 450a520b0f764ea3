"""Recovery of real runs: who is asked, who is waited for, what is touched, and what is said."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from harness import Scene
from harness.harm import hold, lose_both
from harness.kernels import needs_inodes
from harness.recovering import case_of, committed, edited, reap, told
from lastout import forced, identity
from lastout.evidence import journal
from lastout.evidence.events import Forced, Note, TreeGone
from lastout.graces import FORCED_STEP, MARGIN
from lastout.leases import locks, model
from lastout.leases.memory import MemoryStore
from lastout.leases.model import Holder
from lastout.recovery import act
from lastout.recovery import case as cases
from lastout.recovery.act import examine, recover, recover_all
from lastout.recovery.case import Asker
from lastout.recovery.decide import Step

RUDE = "root ignore [ child ignore ] [daemon escapee ignore ]"
PERSON = Asker(stop=True)


def test_a_run_that_is_over_is_read_and_not_asked(scene: Scene) -> None:
    run = scene.run("root exit=0")
    run.ends(code=0)
    result = recover(case_of(run))
    assert told(result) == ("exited", "tree-gone")
    assert result.steps == ["settle"]
    assert run.event("closed", verdict="exited")["run"] == run.event("tree-gone")["run"]
    recover(case_of(run))
    assert len(run.all("closed")) == 1, "said once"


def test_a_run_that_was_refused_or_could_not_start_is_over(scene: Scene) -> None:
    run = scene.run(["/nowhere/to/be/found"])
    run.ends(code=127)
    assert run.record is not None
    assert told(recover(cases.of_record(str(run.record.path)))) == ("exited", "never-started")


def test_a_run_whose_owner_is_alive_is_left_alone(scene: Scene) -> None:
    run = scene.run("root", owner=[])
    root = scene.member("root")
    result = recover(case_of(run))
    assert result.verdict is None
    assert result.left
    assert "owner" in result.left
    assert root.alive()
    assert not run.all("stop")
    result = recover(case_of(run), asker=PERSON)
    assert told(result) == ("exited", "tree-gone")
    run.event("stop", trigger="signal")


def test_a_run_that_nobody_owns_is_nobodys_to_stop(scene: Scene) -> None:
    run = scene.run("root", "--owner", "none", stdin="null")
    root = scene.member("root")
    result = recover(case_of(run))
    assert (result.verdict, root.alive()) == (None, True)
    assert told(recover(case_of(run), asker=PERSON)) == ("exited", "tree-gone")


def test_stopped_supervisors_of_a_dead_owner_are_resumed_and_finish_by_themselves(
    scene: Scene,
) -> None:
    run = scene.run(RUDE, owner=[])
    for role in ("root", "child", "escapee"):
        scene.member(role)
    for process in (run.front, run.keeper):
        process.signal(SIGSTOP)
        process.wait_state("T")
    assert run.owner is not None
    run.owner.signal(SIGKILL)
    run.owner.wait_gone()
    result = recover(case_of(run))
    assert told(result) == ("exited", "tree-gone")
    assert result.steps == ["ask", "settle"]
    assert not run.all("forced")
    run.nobody_left()


def test_an_overdue_supervisor_is_forced_after_its_own_bound_and_not_before(scene: Scene) -> None:
    """Held by a tracer, so that SIGCONT does not help."""
    run = scene.run(RUDE, owner=[], graces=(0.1, 0.3, 0.2))
    members = [scene.member(role) for role in ("root", "child", "escapee")]
    people = (run.front, run.keeper)
    hold(people)
    assert run.owner is not None
    run.owner.signal(SIGKILL)
    run.owner.wait_gone()
    began = time.monotonic()
    result = recover(case_of(run))
    took = time.monotonic() - began
    assert told(result) == ("killed", "forced")
    assert result.steps == ["ask", "force", "settle"]
    assert took >= 0.6 + MARGIN
    for member in members:
        member.wait_gone()
    run.nobody_left()
    assert run.event("forced")["verdict"] == "killed"
    assert run.event("closed")["verdict"] == "killed"


def test_both_supervisors_dead_and_the_root_with_them(scene: Scene) -> None:
    run = scene.run("root")
    scene.member("root")
    lose_both(run)
    result = recover(case_of(run))
    assert told(result) == ("killed", "root-gone")
    assert result.verdict is not None
    assert result.verdict.root_gone is True
    assert result.steps == ["settle"], "nothing had to be done"


@needs_inodes
def test_a_wrapper_root_is_dead_and_its_child_writes_on(scene: Scene) -> None:
    run = scene.run("root [ writer ignore ]", owner=[])
    writer = scene.member("writer")
    lose_both(run)
    assert writer.alive()
    assert run.owner is not None
    assert recover(case_of(run)).left, "its owner is alive: what is left is the owner's to end"
    assert writer.alive()
    run.owner.signal(SIGKILL)
    run.owner.wait_gone()
    result = recover(case_of(run))
    assert told(result) == ("killed", "forced")
    writer.wait_gone()
    run.nobody_left()


def test_a_writer_that_is_none_of_the_root_is_found_by_its_own_identity(scene: Scene) -> None:
    """An agent that said who writes: in a session of its own, and orphaned by now."""
    run = scene.run("root [daemon writer ignore ]")
    writer = scene.member("writer")
    who = identity.take(writer.pid)
    lose_both(run)
    store, key = MemoryStore(), "key"
    case = committed(store, key, run, writer=who)
    result = recover(case, asker=PERSON, store=store)
    assert told(result) == ("killed", "forced")
    writer.wait_gone()
    stored = store.get(key)
    assert stored is not None
    assert stored.lease.free


def test_what_stays_behind_the_bound_does_not_hold_the_key(scene: Scene) -> None:
    """`tree-unproven` with the root gone: the keeper stays, and the next start goes ahead. The
    late report enters only the record of the old run."""
    run = scene.run("root [daemon escapee ignore ]", "--leftovers", "wait")
    root, escapee = scene.member("root"), scene.member("escapee")
    store, key = MemoryStore(), "key"
    case = committed(store, key, run)
    root.tell("exit 0")
    run.event("reaped", who="root")
    assert case.record is not None
    run.front.signal(SIGSTOP)
    with open(case.record, "a") as file:
        last = {**run.events[-1], "event": "tree-unproven", "from": "front", "seq": 500}
        last |= {"remaining": [{**run.started["root"], "name": "x"}], "why": "bound-exceeded"}
        file.write(json.dumps(last | {"keeper_stays": True, "remaining_count": 1}) + "\n")
    result = recover(case, asker=PERSON, store=store)
    assert told(result) == ("killed", "root-gone")
    assert result.verdict is not None
    assert result.verdict.evidence["facts"]["keeper"] == "yes", result.verdict.evidence
    assert "supervisor" not in result.verdict.sentence, "it is alive, and nobody saw otherwise"
    assert escapee.alive(), "settled by what was observed; the keeper goes on by itself"
    stored = store.get(key)
    assert stored is not None
    assert stored.lease.free
    lease = store.change(
        key, lambda found, at: model.reserve(found and found.lease, key, Holder("next"), at)
    )
    escapee.tell("exit 0")
    recover(case_of(run), asker=PERSON)
    run.front.wait_gone()
    late = recover(case, asker=PERSON, store=store)
    assert late.verdict is not None
    stored = store.get(key)
    assert stored is not None
    assert stored.lease == lease, "an old epoch has nothing to say there"


def test_unproven_never_becomes_exited_by_waiting(scene: Scene) -> None:
    run = scene.run("root [ writer ignore ]")
    writer = scene.member("writer")

    def no_inode(lines: list[dict[str, Any]]) -> None:
        lines[0]["root"]["inode"] = 0

    case = edited(run, no_inode)
    lose_both(run)
    reap(run.root.pid)
    for _ in range(3):
        result = recover(case, asker=PERSON)
        assert told(result) == ("unproven", "cannot-tell")
        assert writer.alive()
    writer.signal(SIGKILL)
    writer.wait_gone()
    assert told(recover(case, asker=PERSON)) == ("killed", "root-gone"), "never exited"


def test_an_unreadable_record_touches_nothing(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")
    case = case_of(run)
    assert case.record is not None
    torn = Path(case.record).with_name("torn.jsonl")
    torn.write_bytes(Path(case.record).read_bytes()[:50] + b"\n")
    result = recover(cases.of_record(str(torn)), asker=PERSON)
    assert result.verdict is not None
    assert result.verdict.kind == "unproven"
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@needs_inodes
def test_a_table_that_cannot_be_read_is_a_verdict_and_no_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hidepid, or no descriptor left, while it is asked whether the asker is of the run."""

    def unreadable(*_: object) -> bool:
        raise PermissionError(13, "the process table")

    run = scene.run("root [ child ignore ]", owner=[])
    child = scene.member("child")
    case = case_of(run)
    lose_both(run)
    with monkeypatch.context() as patch:
        patch.setattr(forced, "asked_from_inside", unreadable)
        patch.setattr(act, "asked_from_inside", unreadable, raising=False)
        assert told(recover(case, asker=PERSON)) == ("unproven", "table-unreadable")
    assert child.alive(), "ambiguous: nothing is touched"
    assert told(recover(case, asker=PERSON)) == ("killed", "forced")
    child.wait_gone()


def test_looking_touches_nothing(scene: Scene) -> None:
    run = scene.run("root", owner=[])
    root = scene.member("root")
    assert run.owner is not None
    for process in (run.front, run.keeper):
        process.signal(SIGSTOP)
        process.wait_state("T")
    run.owner.signal(SIGKILL)
    run.owner.wait_gone()
    decision, _, _ = examine(case_of(run))
    assert decision.step is Step.ASK
    assert root.alive()
    assert not [event for event in run.events if event["from"] == "owner"]
    assert (run.front.state(), run.keeper.state()) == ("T", "T")
    recover(case_of(run))


def test_many_are_recovered_side_by_side(scene: Scene) -> None:
    count = 12
    owners = [scene.run("root ignore", owner=[], graces=(0.1, 1.0, 5.0)) for _ in range(count)]
    scene.until(lambda: len(scene.all("root")) == count, "all roots")
    for run in owners:
        for process in (run.front, run.keeper):
            process.signal(SIGSTOP)
            process.wait_state("T")
    for run in owners:
        assert run.owner is not None
        run.owner.signal(SIGKILL)
    for run in owners:
        assert run.owner is not None
        run.owner.wait_gone()
    began = time.monotonic()
    results = recover_all([case_of(run) for run in owners])
    took = time.monotonic() - began
    assert {told(result) for result in results} == {("exited", "tree-gone")}
    assert took < 1.0 * count / 2, "one after the other would take the sum of their graces"


def test_a_start_that_never_came_leaves_the_key_free_behind_a_fence(tmp_path: Path) -> None:
    """The owner died between its reservation and its front: nothing was executed, and a front that
    comes later sees the fence."""
    store, folder = MemoryStore(), locks.directory(tmp_path, "key")
    gone = subprocess.Popen(["true"])
    owner = identity.take(gone.pid)
    gone.wait()
    held = Holder("r", record=str(tmp_path / "r"), owner=owner, boot_id=identity.boot_id())
    lease = store.change("key", lambda found, at: model.reserve(None, "key", held, at))
    locks.create(folder, lease.epoch, {"run": "r"})
    result = recover(cases.of_lease(lease, folder), store=store)
    assert told(result) == ("exited", "never-started")
    assert result.steps == ["fence", "settle"]
    assert locks.epochs(folder) == [1, 2]


def test_a_start_that_died_before_it_could_say_so_is_killed_with_its_keeper(
    tmp_path: Path,
) -> None:
    """The note in the lock file names the keeper; the record has no `started` line."""
    store, folder = MemoryStore(), locks.directory(tmp_path, "key")
    dead = []
    for _ in range(3):
        gone = subprocess.Popen(["true"])
        dead.append(identity.take(gone.pid))
        gone.wait()
    owner, front, keeper = dead
    record = tmp_path / "r.jsonl"
    record.touch()
    held = Holder("r", record=str(record), owner=owner, boot_id=identity.boot_id())
    lease = store.change("key", lambda found, at: model.reserve(None, "key", held, at))
    path = locks.create(
        folder, 1, {"run": "r", "boot_id": identity.boot_id(), "pidns": identity.pidns()}
    )
    case = cases.of_lease(lease, folder)
    assert told(recover(case)) == ("exited", "never-started"), "no note: nothing was executed"
    note = {"event": "executing", "front": front.to_record(), "keeper": keeper.to_record()}
    with open(path, "a") as file:
        file.write(json.dumps(note) + "\n")
    result = recover(case, store=store)
    assert told(result) == ("killed", "killed-with-keeper")
    assert result.verdict is not None
    assert result.verdict.root_gone is None, "nobody has seen the root's end"


@needs_inodes
def test_the_outcome_of_every_step_is_in_the_record(scene: Scene) -> None:
    run = scene.run("root [ writer ignore ]")
    scene.member("writer")
    case = case_of(run)
    lose_both(run)
    recover(case, asker=PERSON)
    assert case.record is not None
    events = journal.read(case.record).events
    assert [type(event).__name__ for event in events if isinstance(event, Forced | Note)] == [
        "Forced"
    ]
    assert not any(isinstance(event, TreeGone) for event in events)
    assert FORCED_STEP == 3.0
