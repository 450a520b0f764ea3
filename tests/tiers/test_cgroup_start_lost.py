"""Front, keeper and guard all die during a start with --contain cgroup: whatever they had made by
then is found through the record and removed, and nobody takes the cgroup of a start that lives."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from types import SimpleNamespace

import pytest

from faults.sweep import END_OF_CALLS, ask_to_stop, finish, front_of, hit
from harness import Scene
from harness.member import Member, Process
from harness.run import Run
from harness.tiers import below, needs_cgroup, own_cgroup
from lastout.evidence import journal
from lastout.evidence.events import Contained, Started
from lastout.recovery import act, cgroups
from lastout.recovery import case as cases
from lastout.recovery.runs import look

pytestmark = [
    pytest.mark.root,
    needs_cgroup,
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="the program that injects knows x86_64 alone"
    ),
]

RUDE = "root ignore [daemon escapee ignore ]"


def directories() -> set[Path]:
    """Of this test's runs: others may be played on this machine at the same time."""
    here = own_cgroup()
    assert here is not None
    return set(here.glob(f"lastout-lost{os.getpid()}-*"))


def record_of(run: Run) -> str:
    assert run.record is not None
    return str(run.record.path)


def start(scene: Scene, k: int, what: str) -> tuple[Run, Member]:
    """A start whose front is killed or stopped at its call K, and the program that does it."""
    before = len(scene.all("inject"))
    via = [*scene.program("inject"), "front", str(k), what, "--"]
    name = f"lost{os.getpid()}-{len(scene.runs)}"
    run = scene.run(RUDE, "--contain", "cgroup", "--run", name, via=via)
    scene.until(lambda: len(scene.all("inject")) > before, "inject says hello")
    return run, scene.all("inject")[-1]


def cgroup_of(run: Run) -> Path:
    made = [e for e in journal.read(record_of(run)).events if isinstance(e, Contained)]
    assert made[-1].cgroup is not None
    return Path(made[-1].cgroup)


def verdict_of(run: Run) -> str | None:
    verdict = act.recover(cases.of_record(record_of(run))).verdict
    return verdict and verdict.how


def over_by_then(scene: Scene, run: Run, roots: int) -> bool:
    """Whether it ended before the test heard of its root; `roots` were there before."""
    scene.until(lambda: run.process.gone or len(scene.all("root")) > roots, "the end, or the root")
    return run.process.gone


def test_the_front_is_killed_at_each_of_its_calls(scene: Scene) -> None:
    lost = 0
    for k in range(1, 400):
        roots = len(scene.all("root"))
        run, inject = start(scene, k, "kill")
        if not over_by_then(scene, run, roots):
            ask_to_stop(scene, inject)
            break
        assert hit(inject) != END_OF_CALLS
        run.wait()
        # Once there is a guard, it ends what there is; before that nobody is left to do so.
        scene.hub.look(lambda: not scene.strangers(), f"nobody is left of call {k}")
        found = list(cgroups.find([record_of(run)]))
        assert {Path(one.path) for one in found} == directories(), f"call {k}\n{run}"
        for one in found:
            swept = cgroups.sweep(one)
            assert (swept.removed, swept.killed) == (True, 0), swept.why  # the guard ends a tree
            assert verdict_of(run) == "cgroup-removed"
        lost += len(found)
        assert not directories()
        finish(scene, run)
    else:
        pytest.fail("the root never ran")
    assert lost >= 5, "from the call after mkdir to the fork of the guard"
    run.wait()
    scene.hub.look(lambda: not scene.strangers(), "nobody is left of the last")
    assert not directories()


_keeper_is_forked: list[int] = []


def call_that_forks_the_keeper(scene: Scene) -> int:
    """Looked for once: the same program makes the same calls."""
    fork_calls, forks, k = {56 + 1, 57 + 1, 435 + 1}, 0, 0
    while forks < 2 and not _keeper_is_forked:  # guard, keeper
        k += 1
        run, inject = start(scene, k, "kill")
        run.wait()
        forks += hit(inject) in fork_calls
        scene.hub.look(lambda: not scene.strangers(), f"nobody is left of call {k}")
        for one in cgroups.find([record_of(run)]):
            cgroups.sweep(one)
        finish(scene, run)
    return (_keeper_is_forked or [k])[0]


@pytest.fixture
def started(scene: Scene) -> Iterator[SimpleNamespace]:
    """A run whose front stands still since it forked the keeper: so no line of it is written."""
    k = call_that_forks_the_keeper(scene)
    _keeper_is_forked[:] = [k]
    run, inject = start(scene, k + 1, "stop")
    root = scene.member("root")
    pid = front_of(inject)
    assert pid is not None
    front = Process.of(scene.hub, pid, "front")
    keeper, guard = (below(scene, pid, name) for name in ("lastout-keeper", "lastout-guard"))
    yield SimpleNamespace(run=run, root=root, front=front, keeper=keeper, guard=guard)
    for process in (front, keeper, guard):
        process.close()


def test_all_three_die_before_started_is_written(scene: Scene, started: SimpleNamespace) -> None:
    run, escapee = started.run, scene.member("escapee")
    for process in (started.guard, started.keeper, started.front):
        process.signal(SIGKILL)
        process.wait_gone()
    started.root.wait_gone()
    run.wait()
    assert escapee.alive(), "the root's death signal does not reach it"
    kinds = [type(event) for event in journal.read(record_of(run)).events]
    assert kinds == [Contained, Contained], "nothing was told of the start itself"
    assert look(record_of(run)).state == "lost"
    assert verdict_of(run) != "cgroup-removed", "it is there, and somebody lives in it"
    (left,) = cgroups.find([record_of(run)])
    swept = cgroups.sweep(left)
    assert swept.removed, swept.why
    assert swept.killed >= 1
    escapee.wait_gone()
    assert verdict_of(run) == "cgroup-removed"
    assert list(cgroups.find([record_of(run)])) == []


@pytest.mark.parametrize("alive", ["front", "keeper", "guard"])
def test_while_one_of_them_lives_it_is_theirs(
    scene: Scene, started: SimpleNamespace, alive: str
) -> None:
    run, directory = started.run, cgroup_of(started.run)
    assert look(record_of(run)).state == "starting"
    three: dict[str, Process] = {n: getattr(started, n) for n in ("guard", "keeper", "front")}
    stays = three.pop(alive)
    stays.signal(SIGSTOP)  # or it would end the run before anybody has looked
    stays.wait_state("T")
    for process in three.values():
        process.signal(SIGKILL)
        process.wait_gone()
    assert list(cgroups.find([record_of(run)])) == []
    assert directory.exists()
    stays.signal(SIGCONT)
    run.wait()
    scene.hub.look(lambda: not scene.strangers(), f"{alive} ends the run")
    assert not directory.exists()


def test_started_never_comes_before_contained(scene: Scene) -> None:
    run = scene.run("root", "--contain", "cgroup")
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    planned, made, told = journal.read(record_of(run)).events[:3]
    assert isinstance(planned, Contained)
    assert isinstance(made, Contained)
    assert isinstance(told, Started)
    assert (planned.cgroup, made.cgroup) == (told.cgroup, told.cgroup)
    assert (planned.cgroup_id, made.cgroup_id) == (None, told.cgroup_id)
