"""The forced step tells what it did: whom it reached, whom not, and what an earlier one had killed."""

from __future__ import annotations

from collections.abc import Collection
from signal import SIGKILL, SIGTERM

import pytest

from harness import Scene
from harness.forcing import stop_both, target, untouched
from lastout import forced, identity, sweep, tree
from lastout.evidence import journal
from lastout.evidence.events import Forced
from lastout.forced import force
from lastout.verdict import SENTENCES


@pytest.mark.parametrize(
    ("said", "detail", "expected"),
    [
        ("unproven", {"signalled_count": 1}, ("killed", "forced")),
        ("unproven", None, ("exited", "nothing-left")),
        ("unproven", "damaged", ("exited", "nothing-left")),
        ("", {"how": "now"}, ("killed", "forced")),
    ],
)
def test_kills_of_a_step_that_proved_nothing_are_remembered(
    scene: Scene, said: str, detail: object, expected: tuple[str, str]
) -> None:
    """The record tells of earlier kills: of a step, whatever its verdict was, or of a stop."""
    run = scene.run("root")
    root = scene.member("root")
    stop_both(run)
    aim = target(run)
    assert aim.record is not None
    journal.append(aim.record, Forced, aim.run, verdict=said, detail=detail)
    root.signal(SIGKILL)
    scene.until(lambda: root.state() == "Z", "the root is a zombie that its keeper does not reap")
    verdict = force(aim)
    assert (verdict.kind, verdict.how) == expected


def test_kills_before_the_table_became_unreadable_are_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.run("root ignore")
    root = scene.member("root")
    stop_both(run)
    aim = target(run)
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "_wait_for_one", lambda alive: (_ for _ in ()).throw(OSError(5, "x")))
        first = force(aim)
    assert (first.how, first.evidence["signalled_count"]) == ("table-unreadable", 1)
    root.wait_gone()
    run.front.wait_gone()
    assert force(aim).kind == "killed"


def refuse(patch: pytest.MonkeyPatch, pid: int) -> None:
    """As the kernel answers for a member of another user."""
    send = tree.send

    def answer(member: tree.Member, number: int, *, parents: Collection[int]) -> str:
        return "EPERM" if member.pid == pid else send(member, number, parents=parents)

    patch.setattr(tree, "send", answer)


@pytest.mark.parametrize("root_dies", [True, False])
def test_a_member_that_may_not_be_killed_is_not_said_to_be_reached(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, root_dies: bool
) -> None:
    run = scene.run("root ignore [daemon escapee ignore ]", graces=(0.2, 0.2, 5))
    root, escapee = scene.member("root"), scene.member("escapee")
    with monkeypatch.context() as patch:
        refuse(patch, escapee.pid)
        if not root_dies:  # as one that hangs in the kernel, with the signal delivered
            patch.setattr(forced, "still_alive", lambda one: identity.Alive.YES)
        verdict = force(target(run), bound=0.3)
    expected = ("killed", "not-all-reached") if root_dies else ("unproven", "not-delivered")
    assert (verdict.kind, verdict.how) == expected
    assert verdict.root_gone is root_dies
    assert verdict.how in SENTENCES
    assert escapee.pid in {one["pid"] for one in verdict.evidence["remaining"]}
    root.wait_gone()
    run.signal(SIGTERM)
    escapee.wait_gone()
    run.wait()
    run.nobody_left()


def test_a_bound_that_ended_before_the_first_kill_is_told(scene: Scene) -> None:
    """The root is gone, and a leftover lives below its supervisors: nobody was signalled."""
    run = scene.run("root [daemon escapee ignore ] exit=0", "--leftovers", "wait")
    escapee = scene.member("escapee")
    run.event("reaped", who="root")
    verdict = force(target(run), bound=0.0)
    assert (verdict.kind, verdict.how, verdict.root_gone) == ("killed", "not-all-reached", True)
    assert verdict.evidence["signalled_count"] == 0
    untouched(run, [escapee])
    run.signal(SIGTERM)
    escapee.wait_gone()
    run.wait()
    run.nobody_left()
