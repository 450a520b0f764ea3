"""`stop-others`: the root stays, everybody else of the tree is stopped, and who that was is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest

from harness import Member, Scene
from harness.freezer import freezer
from harness.record import Event
from harness.run import Run, between_ms
from harness.tiers import needs_cgroup, needs_pidns

PLENTY = (0.2, 20.0, 5.0)

TIERS = [
    pytest.param((), id="subreaper"),
    pytest.param(("--contain", "cgroup"), id="cgroup", marks=needs_cgroup),
    pytest.param(("--contain", "pidns"), id="pidns", marks=needs_pidns),
]


def ids(members: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(member["pid"], member["start"]) for member in members}


def identity(who: Member) -> tuple[int, int]:
    return (who.identity.pid, who.identity.start)


def asked(run: Run, **fields: Any) -> Event:
    run.command(cmd="stop-others", reason="completion", by="the host", **fields)
    return run.event("others-stopped")


def others_of(run: Run) -> list[Any]:
    """Everybody but the root, as the supervisor lists them."""
    run.command(cmd="list")
    return [m for m in run.answer("list")["members"] if m["pid"] != run.started["root"]["pid"]]


def goes_on_and_ends(run: Run, root: Member) -> Event:
    root.tell("ping")
    root.tell("exit 3")
    run.ends(code=3)
    return run.event("tree-gone")


@pytest.mark.parametrize("tier", TIERS)
def test_everybody_but_the_root(scene: Scene, tier: tuple[str, ...]) -> None:
    run = scene.run(
        "root note=TERM [ own-group ignore ] [ own-session setsid ignore ] [daemon escapee ignore ]"
        " [daemon reaper subreaper ignore [daemon below ignore ] ]",
        *tier,
        control=True,
    )
    names = ("own-group", "own-session", "escapee", "reaper", "below")
    others = [scene.member(name) for name in names]
    root = scene.member("root")
    told = asked(run)
    assert all(who.gone for who in others)
    assert root.alive()
    assert root.arrivals(SIGTERM) == 0
    assert (told["remaining"], told["remaining_count"], told["interrupted"]) == ([], 0, None)
    assert (told["reason"], told["by"]) == ("completion", "the host")
    assert told["stopped_count"] == told["killed_count"] == len(others)
    if "pidns" not in tier:
        assert ids(told["stopped"]) == {identity(who) for who in others}
    gone = goes_on_and_ends(run, root)
    assert gone["stopped_count"] == 0, "they were stopped before the run's own end, not in it"


def test_one_that_cleans_up_has_the_whole_grace(scene: Scene) -> None:
    run = scene.run("root [ tool term=clean:300:0 ] [daemon left ignore ]", control=True)
    tool = scene.member("tool")
    scene.member("root")  # the last to say hello: now all are there
    told = asked(run)
    assert "cleaned" in tool.notes
    assert told["killed_count"] == 1
    begun = run.event("stop-others")
    assert between_ms(begun, run.event("signalled", signal="KILL", target="members")) >= 500
    goes_on_and_ends(run, scene.member("root"))


def test_all_obey_and_no_grace_is_waited_out(scene: Scene) -> None:
    run = scene.run(
        "root [daemon one term=exit:0 ] [ two term=exit:0 ]", control=True, graces=PLENTY
    )
    scene.member("root")
    told = asked(run)
    assert (told["stopped_count"], told["killed_count"]) == (2, 0)
    assert told["took_ms"] < 20_000
    assert not run.all("signalled", signal="KILL")
    goes_on_and_ends(run, scene.member("root"))


def test_grace_zero_kills_at_once(scene: Scene) -> None:
    run = scene.run("root [daemon left note=TERM ]", control=True, graces=PLENTY)
    left = scene.member("left")
    scene.member("root")
    told = asked(run, grace_ms=0)
    assert left.arrivals(SIGTERM) == 0
    assert (told["stopped_count"], told["killed_count"]) == (1, 1)
    goes_on_and_ends(run, scene.member("root"))


def test_nobody_else_is_there(scene: Scene) -> None:
    run = scene.run("root", control=True, graces=PLENTY)
    scene.member("root")
    told = asked(run)
    assert (told["stopped"], told["remaining_count"]) == ([], 0)
    assert not run.all("signalled")
    goes_on_and_ends(run, scene.member("root"))


def test_again_after_each_turn(scene: Scene) -> None:
    run = scene.run("root", control=True)
    root = scene.member("root")
    for turn in range(3):
        root.tell(f"spawn [daemon left{turn} ignore ]")
        left = scene.member(f"left{turn}")
        run.command(cmd="stop-others", grace_ms=0)
        scene.until(lambda n=turn: len(run.all("others-stopped")) == n + 1, "the answer")
        assert left.gone
        assert ids(run.all("others-stopped")[-1]["stopped"]) == {identity(left)}
    goes_on_and_ends(run, root)


@pytest.mark.root
@pytest.mark.parametrize("mode", ["", "setsid"], ids=["plain", "setsid"])
def test_a_fork_bomb_at_its_limit(scene: Scene, mode: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    run = scene.run(
        [*scene.program("bomb"), mode],
        "--uid", "54322", "--gid", "54322", "--rlimit", "NPROC=150:150",
        control=True,
        graces=(0.2, 0.3, 5.0),
    )  # fmt: skip
    root = scene.member("root")
    told = asked(run)
    assert told["killed_count"] >= 1
    assert told["remaining_count"] == 0
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.parametrize(("loops", "hop_us"), [(1, 2000), (8, 300)], ids=["one", "eight"])
def test_forking_faster_than_one_can_list(scene: Scene, loops: int, hop_us: int) -> None:
    run = scene.run(
        scene.program("hydra", str(loops), str(hop_us)), control=True, graces=(0.2, 0.3, 5.0)
    )
    root = scene.member("root")
    assert asked(run)["remaining_count"] == 0
    assert not root.gone
    assert others_of(run) == []
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("chrt") is None, reason="chrt (util-linux) is not installed")
def test_who_dies_of_the_first_signal_was_stopped(scene: Scene) -> None:
    # On one processor, and ahead of the supervisor: each is dead, and reaped by its parent, before
    # the supervisor comes to its second signal.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        script = "trap : TERM; sleep 301 & sleep 302 & echo up; wait; exec tail -f /dev/null"
        run = scene.run(["chrt", "-f", "10", "sh", "-c", script], control=True, graces=PLENTY)
        scene.until(lambda: "up" in run.output_text(), "the tools")
        told = asked(run)
    finally:
        os.sched_setaffinity(0, before)
    assert (told["stopped_count"], len(told["stopped"])) == (2, 2)
    assert run.event("signalled", signal="TERM")["failed"] == 0
    run.command(cmd="stop", grace_ms=0)
    run.ends(signal=SIGKILL)


def test_a_stop_takes_over(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]", control=True, graces=PLENTY)
    scene.member("root")
    run.command(cmd="stop-others")
    run.event("signalled", target="members")
    run.command(cmd="stop", grace_ms=0)
    run.ends(signal=SIGKILL)
    told = run.event("others-stopped")
    assert (told["interrupted"], told["remaining_count"]) == ("stop", None)
    assert run.event("tree-gone")["remaining"] == 0


def test_the_roots_end_takes_over(scene: Scene) -> None:
    run = scene.run(
        "root [daemon left ignore ]", "--leftovers", "wait", control=True, graces=PLENTY
    )
    root = scene.member("root")
    run.command(cmd="stop-others")
    run.event("signalled", target="members")
    root.tell("exit 4")
    assert run.event("others-stopped")["interrupted"] == "root-exited"
    run.command(cmd="stop", grace_ms=0)
    run.ends(code=4)


@pytest.mark.parametrize("when", ["twice", "in a stop"])
def test_when_it_cannot_be_it_is_refused(scene: Scene, when: str) -> None:
    run = scene.run("root ignore [daemon left ignore ]", control=True, graces=PLENTY)
    scene.member("root")
    run.command(cmd="stop-others" if when == "twice" else "stop")
    run.event("signalled")
    run.command(cmd="stop-others")
    message = run.answer("error")["message"]
    assert ("already" if when == "twice" else "ending") in message
    run.command(cmd="stop", grace_ms=0)
    run.ends(signal=SIGKILL)


@pytest.mark.root
def test_who_cannot_be_killed_is_named(scene: Scene) -> None:
    with freezer() as cold:
        run = scene.run("root [ left ignore ]", control=True, graces=(0.2, 0.2, 0.4))
        left = scene.member("left")
        cold.freeze(left.pid)
        told = asked(run)
        [member] = told["remaining"]
        assert (member["pid"], member["start"]) == identity(left)
        assert (told["remaining_count"], told["interrupted"]) == (1, None)
        cold.thaw()
    left.wait_gone()
    goes_on_and_ends(run, scene.member("root"))


def test_the_answer_is_in_the_record_of_a_lost_owner(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]", control=True)
    scene.member("root")
    asked(run)
    run.hang_up()
    run.ends(code=0)
    assert [event["event"] for event in run.all("others-stopped")] == ["others-stopped"]
    assert Path(run.record.path).exists()
