"""Our row of the peers' table, under each tier: in every scenario nobody is left, and the root was
asked politely.

R is the root, G a child in its group, E an escapee (setsid and double fork). G and E always ignore
TERM, INT and HUP. Judged when the front is gone; after the front's own death, when the ladder is over.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM

import pytest

from harness import Member, Scene
from harness.run import Run
from harness.tiers import cgroup_of, needs_cgroup, needs_pidns

TREE = "[ G ignore ] [daemon E ignore ]"
OBEYS = f"root term=clean:50:0 stdin=exit:0 {TREE}"
OBEYS_TERM = f"root term=clean:50:0 {TREE}"
IGNORES = f"root ignore=INT,HUP note=TERM {TREE}"
GRACES = (0.2, 0.4, 5.0)
PATIENT = (5.0, 0.4, 5.0)  # for a root that leaves by itself: a fast one costs no wait

Status = tuple[int | None, int | None]

every_tier = pytest.mark.parametrize(
    "tier",
    [
        "subreaper",
        pytest.param("cgroup", marks=[pytest.mark.root, needs_cgroup]),
        pytest.param("pidns", marks=[pytest.mark.root, needs_pidns]),
    ],
)


def signalled(number: int) -> Callable[[Run], None]:
    return lambda run: run.signal(number)  # type: ignore[arg-type]


def owner_killed(run: Run) -> None:
    assert run.owner is not None
    run.owner.signal(SIGKILL)


# name: play, who holds stdin's write end besides the test, what happens, (code, signal) of the
# front, whether R is asked by SIGTERM
SCENARIOS: dict[str, tuple[str, str, Callable[[Run], None], Status, bool]] = {
    "1 TERM, R obeys": (OBEYS_TERM, "", signalled(SIGTERM), (None, SIGTERM), True),
    "2 TERM, all ignore": (IGNORES, "", signalled(SIGTERM), (None, SIGTERM), True),
    "3 R exits 7 by itself": (OBEYS_TERM, "", lambda run: None, (7, None), False),
    "4 owner killed, stdin held, all ignore": (
        IGNORES, "owner", owner_killed, (None, SIGKILL), True),
    "4b owner killed, stdin held, R obeys": (OBEYS_TERM, "owner", owner_killed, (0, None), True),
    "5 owner killed, stdin ends": (IGNORES, "alone", owner_killed, (None, SIGKILL), True),
    "6 stdin ends, R exits": (OBEYS, "", Run.close_stdin, (0, None), False),
    "6b stdin ends, all ignore": (IGNORES, "", Run.close_stdin, (None, SIGKILL), True),
    "8 HUP": (OBEYS_TERM, "", signalled(SIGHUP), (None, SIGHUP), True),
    "9 INT": (OBEYS_TERM, "", signalled(SIGINT), (None, SIGINT), True),
}  # fmt: skip


def the_tree(scene: Scene, run: Run) -> Member:
    """R, once all three have said hello: those of earlier rounds are still listed."""
    pid, rounds = run.started["root"]["pid"], len(scene.runs)
    scene.until(
        lambda: all(len(scene.all(role)) == rounds for role in ("root", "G", "E")), "the tree"
    )
    return next(member for member in scene.all("root") if member.pid == pid)


def play(scene: Scene, name: str, tier: str) -> None:
    tree, stdin, happen, status, asked = SCENARIOS[name]
    run = scene.run(
        tree,
        "--contain",
        tier,
        graces=PATIENT if name.startswith("6 ") else GRACES,
        owner=[] if stdin else None,
        stdin="owner" if stdin == "alone" else "pipe",
    )
    root = the_tree(scene, run)
    if name.startswith("3"):
        root.tell("exit 7")
    happen(run)
    ended = run.wait()
    run.nobody_left()
    assert (ended.code, ended.signal) == status, str(run)
    assert root.arrivals(SIGTERM) == (1 if asked else 0), root
    if asked and "clean:" in tree:
        assert "cleaned" in root.notes, "and had its grace"
    assert run.events[-1]["event"] == "tree-gone"
    assert run.started["contain"] == tier
    assert run.events[-1]["proof"] == {"subreaper": "echild"}.get(tier, tier)
    no_cgroup_left(run)


def no_cgroup_left(run: Run) -> None:
    if run.started["contain"] == "cgroup":
        assert not cgroup_of(run).exists(), "no empty cgroup stays behind"


def play_wrapper_killed(scene: Scene, who: str, tier: str) -> None:
    run = scene.run(OBEYS_TERM, "--contain", tier, graces=GRACES)
    root = the_tree(scene, run)
    others = [m for m in scene.members if m.role in ("G", "E") and not m.gone]
    front, keeper = run.front, run.keeper
    if "keeper" in who:
        keeper.signal(SIGKILL)
    if "front" in who:
        front.signal(SIGKILL)
    run.wait()
    keeper.wait_gone()
    root.wait_gone()
    if who == "front":
        assert "cleaned" in root.notes, "the keeper gave it SIGTERM and its grace"
    else:
        assert "cleaning" not in root.notes, "the kernel ended it at once"
    if who == "front and keeper" and tier == "subreaper":
        # The others are what nobody can promise without a stronger tier: the test ends them.
        for member in others:
            member.dismiss()
    # The guard of a killed front ends by itself, a moment after the last of them.
    scene.hub.look(lambda: not scene.strangers(), "nobody is left")
    no_cgroup_left(run)


@every_tier
@pytest.mark.parametrize("name", SCENARIOS)
def test_nobody_left(scene: Scene, name: str, tier: str) -> None:
    play(scene, name, tier)


@every_tier
@pytest.mark.parametrize("who", ["front", "keeper", "front and keeper"])
def test_nobody_left_7_the_wrapper_itself_is_killed(scene: Scene, who: str, tier: str) -> None:
    play_wrapper_killed(scene, who, tier)


@pytest.mark.torture
@every_tier
@pytest.mark.parametrize("name", SCENARIOS)
def test_nobody_left_in_twenty_rounds(scene: Scene, name: str, tier: str) -> None:
    for _ in range(20):
        play(scene, name, tier)


@pytest.mark.torture
@every_tier
@pytest.mark.parametrize("who", ["front", "keeper", "front and keeper"])
def test_nobody_left_7_in_twenty_rounds(scene: Scene, who: str, tier: str) -> None:
    for _ in range(20):
        play_wrapper_killed(scene, who, tier)


def test_the_payload_itself_would_be_left(scene: Scene) -> None:
    """Without a supervisor G and E live on: the table's first row, so that ours means something."""
    popen = scene.start([*scene.program("actor"), *OBEYS_TERM.split()[0:]])
    root = scene.member("root")
    root.signal(SIGTERM)
    os.waitpid(popen.pid, 0)
    popen.returncode = 0
    left = [scene.member("G"), scene.member("E")]
    assert all(member.alive() for member in left)
    for member in left:
        member.dismiss()
