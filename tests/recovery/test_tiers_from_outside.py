"""Runs of the stronger tiers, ended from outside by what their record says."""

from __future__ import annotations

from signal import SIGSTOP
from typing import Any

import pytest

from harness import Scene
from harness.harm import lose_both
from harness.run import Run
from lastout.forced import Target, force
from lastout.identity import Alive
from lastout.recovery import case as cases
from lastout.recovery.act import recover
from lastout.recovery.case import Asker, Known

RUDE = "root ignore [ child ignore ] [daemon escapee ignore ]"


@pytest.fixture(params=["cgroup", "pidns"])
def run(request: pytest.FixtureRequest, scene: Scene) -> Run:
    made = scene.run(RUDE, "--contain", request.param)
    scene.until(lambda: made.events or made.process.gone, "it starts, or says why not")
    if made.process.gone:
        pytest.skip(made.error_text().strip())
    return made


def known(run: Run) -> Known:
    assert run.record is not None
    assert run.started
    return cases.read(cases.of_record(str(run.record.path)))


def escapees(scene: Scene) -> list[Any]:
    return [scene.member(role) for role in ("root", "child", "escapee")]


@pytest.mark.root
def test_stuck_supervisors(scene: Scene, run: Run) -> None:
    members = escapees(scene)
    found = known(run)
    for process in (run.front, run.keeper):
        process.signal(SIGSTOP)
        process.wait_state("T")
    assert found.front
    assert found.keeper
    assert found.root
    assert run.record is not None
    aim = Target(
        found.run, found.front, found.keeper, found.root, record=str(run.record.path),
        tier=found.tier,
    )  # fmt: skip
    assert found.tier.alive() is Alive.YES
    verdict = force(aim)
    assert verdict.kind == "killed"
    assert verdict.root_gone
    for member in members:
        member.wait_gone()
    assert found.tier.alive() in (Alive.NO, None)
    scene.hub.look(lambda: not scene.strangers(), "the guard of the cgroup ends too")


@pytest.mark.root
def test_both_supervisors_dead_at_once(scene: Scene, run: Run) -> None:
    """The tier ends everybody by itself; recovery says what was seen of that."""
    members = escapees(scene)
    lose_both(run)
    assert run.record is not None
    result = recover(cases.of_record(str(run.record.path)), asker=Asker(stop=True))
    assert result.verdict is not None
    assert result.verdict.settled
    for member in members:
        member.wait_gone()
    scene.hub.look(lambda: not scene.strangers(), "the guard of the cgroup ends too")


@pytest.mark.root
def test_another_cgroup_of_that_name_is_not_touched(scene: Scene, run: Run) -> None:
    from dataclasses import replace

    found = known(run)
    if not found.tier.cgroup:
        pytest.skip("this run has no cgroup")
    members = escapees(scene)
    other = replace(found.tier, cgroup_id=found.tier.cgroup_id + 1)
    assert (other.alive(), other.pids()) == (None, ())
    other.kill()
    assert all(member.alive() for member in members)
    recover(cases.of_record(str(run.record.path if run.record else "")), asker=Asker(stop=True))
