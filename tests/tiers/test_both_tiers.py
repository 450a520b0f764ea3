"""The stronger tiers hold what the default tier holds, and the death of front and keeper at once."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL, SIGTERM, SIGUSR1

import pytest

from harness import Scene
from harness.run import Run
from harness.tiers import cgroup_of, needs_cgroup, needs_pidns

POLITE = "root term=clean:50:0 [ child ignore ] [daemon escapee ignore ]"
STUBBORN = "root ignore note=TERM [ child ignore ] [daemon escapee ignore ]"

pytestmark = pytest.mark.root

both_tiers = pytest.mark.parametrize(
    "tier",
    [pytest.param("cgroup", marks=needs_cgroup), pytest.param("pidns", marks=needs_pidns)],
)


def start(scene: Scene, play: str, tier: str, **more: object) -> Run:
    run = scene.run(play, "--contain", tier, **more)  # type: ignore[arg-type]
    scene.member("root")
    assert run.started["contain"] == tier
    run.front, run.keeper, run.root  # noqa: B018  (pinned while they live)
    return run


def gone(scene: Scene, run: Run) -> None:
    run.wait()
    # The guard of a killed front ends by itself, a moment after the last of them.
    scene.hub.look(lambda: not scene.strangers(), "nobody is left")
    if run.started["contain"] == "cgroup":
        assert not cgroup_of(run).exists(), "no empty cgroup stays behind"


@both_tiers
def test_a_stop_is_polite_then_complete(scene: Scene, tier: str) -> None:
    run = start(scene, POLITE, tier)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert "cleaned" in scene.member("root").notes
    assert run.event("root-exited")["code"] == 0
    assert run.events[-1]["proof"] == tier
    gone(scene, run)


@both_tiers
def test_all_ignore_sigterm_and_the_roots_end_is_seen(scene: Scene, tier: str) -> None:
    run = start(scene, STUBBORN, tier)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert scene.member("root").arrivals(SIGTERM) == 1
    assert run.event("root-exited")["signal"] == "KILL"
    gone(scene, run)


@both_tiers
def test_status_and_leftovers_of_a_root_that_ends_by_itself(scene: Scene, tier: str) -> None:
    run = start(scene, "root [daemon left ignore ]", tier)
    scene.member("root").tell("exit 7")
    run.ends(code=7)
    assert run.event("leftovers")["count"] == 1
    assert run.event("stop", trigger="root-exited")
    gone(scene, run)


@both_tiers
def test_a_root_that_leaves_nobody_costs_no_stop(scene: Scene, tier: str) -> None:
    run = start(scene, "root", tier)
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    assert not [e for e in run.events if e["event"] in ("stop", "leftovers")]
    gone(scene, run)


@both_tiers
def test_signals_are_passed_on(scene: Scene, tier: str) -> None:
    run = start(scene, "root note=USR1", tier)
    run.signal(SIGUSR1)
    scene.until(lambda: scene.member("root").arrivals(SIGUSR1) == 1, "USR1 arrives")
    scene.member("root").tell("exit 0")
    run.ends(code=0)


@both_tiers
def test_front_killed_the_root_keeps_its_grace(scene: Scene, tier: str) -> None:
    run = start(scene, POLITE, tier)
    run.front.signal(SIGKILL)
    run.wait()
    run.keeper.wait_gone()
    assert run.event("root-exited")["code"] == 0, str(run)
    scene.wait_note("cleaned")
    gone(scene, run)


@both_tiers
def test_keeper_killed(scene: Scene, tier: str) -> None:
    run = start(scene, STUBBORN, tier)
    run.keeper.signal(SIGKILL)
    gone(scene, run)
    assert run.event("takeover", why="keeper-lost")
    assert run.events[-1]["event"] == "tree-gone"


def kill_both(scene: Scene, tier: str) -> None:
    run = start(scene, STUBBORN, tier)
    run.keeper.signal(SIGKILL)
    run.front.signal(SIGKILL)
    run.wait()
    run.keeper.wait_gone()
    scene.hub.look(lambda: not scene.strangers(), "nobody is left")
    if tier == "cgroup":
        scene.hub.look(lambda: not cgroup_of(run).exists(), "the cgroup is removed")
        assert run.event("tree-gone")["from"] == "guard"
    run.close()


@both_tiers
@pytest.mark.parametrize("round_", range(5))
def test_front_and_keeper_killed_in_the_same_instant_leave_nobody(
    scene: Scene, tier: str, round_: int
) -> None:
    kill_both(scene, tier)


@both_tiers
@pytest.mark.torture
def test_front_and_keeper_killed_in_the_same_instant_200_times(scene: Scene, tier: str) -> None:
    for _ in range(200):
        kill_both(scene, tier)
        for member in scene.members:
            member.close()
        scene.members.clear()


@both_tiers
def test_the_root_cannot_be_executed(scene: Scene, tier: str) -> None:
    run = scene.run(["/nonexistent/program"], "--contain", tier)
    run.ends(code=127)
    assert run.event("failed")["reason"] == "exec"
    run.nobody_left()


@both_tiers
@pytest.mark.quiet
def test_front_and_keeper_are_idle(scene: Scene, tier: str) -> None:
    run = start(scene, "root", tier)
    ours = [run.started["front"]["pid"], run.started["keeper"]["pid"]]
    if tier == "pidns":
        ours.append(run.started["init"]["pid"])
    before = settled(scene, ours)
    scene.hub.quiet(lambda: switches(ours) != before, 1.0, "a wake-up while nothing happens")
    scene.member("root").tell("exit 0")
    run.ends(code=0)


def switches(pids: list[int]) -> int:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def settled(scene: Scene, pids: list[int]) -> int:
    last = -1

    def same() -> bool:
        nonlocal last
        before, last = last, switches(pids)
        scene.hub.round(0.05)
        return before == last

    scene.hub.look(same, "all are asleep after the start")
    return last
