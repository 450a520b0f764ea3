"""A keeper that stands still for good, and deaths in the SIGKILL stage and after it."""

from __future__ import annotations

from signal import SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene
from harness.freezer import freezer
from harness.holder import hold
from harness.plays import STUBBORN, started
from harness.run import between_ms

# ---- a keeper that no SIGCONT helps ---------------------------------------------------------


def test_a_stop_that_the_keeper_does_not_take_up(scene: Scene) -> None:
    run = started(scene, "root term=clean:100:0 [daemon left ignore ]", graces=(0.2, 1.5, 5.0))
    root = scene.member("root")
    hold(scene, run)
    run.signal(SIGTERM)
    root.wait_note("cleaned")
    own = run.event("signalled", signal="TERM", target="root")
    assert own["from"] == "front"
    ended = run.wait()
    assert ended.signal == SIGTERM
    assert run.event("takeover", why="stop-not-acknowledged")
    run.nobody_left()
    assert run.events[-1]["event"] == "tree-gone"
    # The ladder's own times: SIGKILL no sooner than the grace after the front was asked.
    assert between_ms(own, run.event("signalled", signal="KILL")) >= 1500 - 500


@pytest.mark.parametrize("play", [STUBBORN, "root ignore"], ids=["tree", "root alone"])
def test_a_sigkill_stage_that_is_overdue(scene: Scene, play: str) -> None:
    run = started(scene, play, graces=(0.2, 0.8, 5.0))
    run.signal(SIGTERM)
    run.event("signalled", signal="TERM", target="root-group")
    hold(scene, run)
    ended = run.wait()
    assert ended.signal == SIGTERM
    takeover = run.event("takeover", why="kill-overdue")
    assert between_ms(run.event("stop"), takeover) >= 800 + 500
    run.nobody_left()
    assert run.events[-1]["event"] == "tree-gone"


def test_a_held_keeper_without_a_stop_is_left_alone(scene: Scene) -> None:
    run = started(scene, "root term=exit:0")
    holder = hold(scene, run)
    run.hub.quiet(lambda: run.all("takeover") or run.keeper.gone, 0.8, "a takeover")
    assert scene.member("root").alive()
    holder.dismiss()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


# ---- the SIGKILL stage and after ------------------------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize("who", ["front", "keeper"])
def test_killed_in_the_sigkill_stage(scene: Scene, who: str) -> None:
    with freezer() as cold:
        run = started(scene, "root term=exit:0 [ left ignore ]", graces=(0.1, 0.2, 3.0))
        left = scene.member("left")
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        run.event("root-exited")
        # The stage shows itself in what it does: the pending SIGKILL of the frozen member.
        run.hub.look(lambda: sigkill_pending(left.pid), "SIGKILL is on its way")
        run.named(who).signal(SIGKILL)
        run.named(who).wait_gone()
        cold.thaw()
        left.wait_gone()
        run.wait()
        run.keeper.wait_gone()
        run.nobody_left()
    assert run.events[-1]["event"] == "tree-gone"


def sigkill_pending(pid: int) -> bool:
    with open(f"/proc/{pid}/status") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("ShdPnd", "SigPnd"))]
    return any(mask & 1 << 8 for mask in masks)


@pytest.mark.root
@pytest.mark.parametrize("who", ["front", "keeper"])
def test_stopped_in_the_sigkill_stage(scene: Scene, who: str) -> None:
    with freezer() as cold:
        run = started(scene, "root term=exit:0 [ left ignore ]", graces=(0.1, 0.2, 2.0))
        left = scene.member("left")
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        run.event("root-exited")
        run.hub.look(lambda: sigkill_pending(left.pid), "SIGKILL is on its way")
        run.named(who).signal(SIGSTOP)
        if who == "front":
            run.front.wait_state("T")
        cold.thaw()
        left.wait_gone()
        run.ends(signal=SIGTERM)


@pytest.mark.root
def test_the_keeper_that_stays_is_killed_too(scene: Scene) -> None:
    # Then nothing is known, and nothing is claimed.
    with freezer() as cold:
        run = started(scene, "root term=exit:0 [ left ignore ]", graces=(0.1, 0.2, 0.3))
        left = scene.member("left")
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        assert run.wait().code == 1
        run.keeper.signal(SIGKILL)
        run.keeper.wait_gone()
        cold.thaw()
        left.wait_gone()
    assert not run.all("tree-gone")
    assert run.events[-1]["event"] == "tree-unproven"


@pytest.mark.root
def test_a_front_that_took_over_and_cannot_prove_it(scene: Scene) -> None:
    with freezer() as cold:
        run = started(scene, "root [daemon left ignore ]", graces=(0.1, 0.2, 0.4))
        left = scene.member("left")
        cold.freeze(left.pid)
        run.keeper.signal(SIGKILL)
        ended = run.wait()
        assert ended.code == 1
        assert run.event("tree-unproven")["remaining"][0]["pid"] == left.pid
        assert not run.all("tree-gone")
        cold.thaw()
        left.wait_gone()
