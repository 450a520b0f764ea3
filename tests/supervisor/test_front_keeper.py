"""Front or keeper killed or stopped, at each stage: the other one ends the run, as the design says."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene, children
from harness.plays import POLITE, STUBBORN, all_gone, started
from harness.run import Run, between_ms

# ---- running --------------------------------------------------------------------------------


def test_front_killed_the_root_keeps_sigterm_and_its_grace(scene: Scene) -> None:
    run = started(scene, POLITE)
    run.front.signal(SIGKILL)
    all_gone(run)
    assert "cleaned" in scene.member("root").notes
    assert run.event("stop", trigger="peer-lost")["which"] == "front"
    assert run.event("root-exited")["code"] == 0
    assert run.events[-1]["event"] == "tree-gone"


def test_front_killed_and_all_ignore_sigterm(scene: Scene) -> None:
    run = started(scene, STUBBORN)
    run.front.signal(SIGKILL)
    all_gone(run)
    asked = run.event("signalled", signal="TERM", target="root-group")
    assert between_ms(asked, run.event("signalled", signal="KILL")) >= 500


def test_keeper_killed_the_root_is_dead_at_once_and_the_front_ends_the_rest(scene: Scene) -> None:
    run = started(scene, "root term=clean:30000:0 [daemon left term=clean:200:0 ]",
                  graces=(0.2, 20.0, 5.0))  # fmt: skip
    run.keeper.signal(SIGKILL)
    run.ends(signal=SIGKILL)
    assert "cleaning" not in scene.member("root").notes
    assert "cleaned" in scene.member("left").notes, "the others keep their grace"
    takeover = run.event("takeover", why="keeper-lost")
    assert os.WTERMSIG(takeover["keeper_status"]) == SIGKILL
    assert run.event("stop", trigger="peer-lost")["which"] == "keeper"
    assert run.event("root-exited")["signal"] == "KILL"
    assert run.events[-1]["event"] == "tree-gone"


def test_keeper_killed_and_all_ignore_sigterm(scene: Scene) -> None:
    run = started(scene, STUBBORN)
    run.keeper.signal(SIGKILL)
    run.ends(signal=SIGKILL)


def test_both_killed_at_once_the_writer_is_dead_at_once(scene: Scene) -> None:
    run = started(scene, "root ignore")
    run.keeper.signal(SIGKILL)
    run.front.signal(SIGKILL)
    run.root.wait_gone()
    run.wait()
    run.keeper.wait_gone()
    run.nobody_left()


def test_front_of_a_group_that_is_killed_whole(scene: Scene) -> None:
    # What hosts do that kill the group of what they started.
    run = started(scene, POLITE, owner=[], via=[*scene.program("enter"), "--group", "--"])
    os.killpg(run.front.pid, SIGKILL)
    all_gone(run)
    assert "cleaned" in scene.member("root").notes


@pytest.mark.parametrize("round_", range(10))
@pytest.mark.parametrize("who", ["front", "keeper"])
def test_killed_in_the_first_milliseconds(scene: Scene, who: str, round_: int) -> None:
    run = scene.run("root ignore [daemon left ignore ]", graces=(0.1, 0.2, 5.0))
    spin(random.Random(round_).random() * 3)
    if who == "front":
        run.process.signal(SIGKILL)
    else:
        kill_keeper_if_there(run)
    run.wait()
    scene.hub.look(lambda: not scene.strangers(), "nobody left")


@pytest.mark.torture
@pytest.mark.parametrize("who", ["front", "keeper"])
def test_killed_in_the_first_milliseconds_many_times(scene: Scene, who: str) -> None:
    for round_ in range(300):
        run = scene.run("root ignore [daemon left ignore ]", graces=(0.0, 0.1, 5.0), record=False)
        spin(random.Random(round_).random() * 3)
        if who == "front":
            run.process.signal(SIGKILL)
        else:
            kill_keeper_if_there(run)
        run.wait()
        scene.hub.look(lambda: not scene.strangers(), f"nobody left in round {round_}")


def spin(milliseconds: float) -> None:

    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        pass


def kill_keeper_if_there(run: Run) -> None:
    """The keeper by its place: the front's first child. Before it exists: the front itself."""

    kids = children(run.process.pid)
    try:
        fd = os.pidfd_open(kids[0]) if kids else None
    except ProcessLookupError:
        fd = None

    if fd is None or kids[0] not in children(run.process.pid):
        run.process.signal(SIGKILL)
    else:
        signal.pidfd_send_signal(fd, SIGKILL)
    if fd is not None:
        os.close(fd)


# ---- in the stages of the ladder ------------------------------------------------------------


def in_stdin_grace(run: Run) -> None:
    run.close_stdin()
    run.event("stop", trigger="stdin-ended")


def in_term_grace(run: Run) -> None:
    run.signal(SIGTERM)
    run.event("signalled", signal="TERM", target="root-group")


def after_the_root(run: Run) -> None:
    run.signal(SIGTERM)
    run.event("root-exited")


STAGES: dict[str, tuple[str, Callable[[Run], None]]] = {
    "stdin grace": (STUBBORN, in_stdin_grace),
    "term grace": (STUBBORN, in_term_grace),
    "root gone": ("root term=exit:0 [daemon escapee ignore ]", after_the_root),
}


@pytest.mark.parametrize("stage", STAGES)
def test_front_killed_during_a_stop(scene: Scene, stage: str) -> None:
    play, reach = STAGES[stage]
    run = started(scene, play)
    reach(run)
    run.front.signal(SIGKILL)
    all_gone(run)
    assert run.events[-1]["event"] == "tree-gone"
    if stage != "root gone":
        asked = run.event("signalled", signal="TERM", target="root-group")
        assert between_ms(asked, run.event("signalled", signal="KILL")) >= 500, "grace not cut"


@pytest.mark.parametrize("stage", STAGES)
def test_keeper_killed_during_a_stop(scene: Scene, stage: str) -> None:
    play, reach = STAGES[stage]
    run = started(scene, play)
    reach(run)
    run.keeper.signal(SIGKILL)
    by_signal = stage != "stdin grace"
    run.ends(signal=SIGTERM if by_signal else SIGKILL)
    run.event("takeover", why="keeper-lost")
    assert run.events[-1]["event"] == "tree-gone"


@pytest.mark.parametrize("stage", STAGES)
def test_both_killed_during_a_stop_the_writer_is_dead(scene: Scene, stage: str) -> None:
    play, reach = STAGES[stage]
    run = started(scene, play)
    reach(run)
    run.keeper.signal(SIGKILL)
    run.front.signal(SIGKILL)
    run.root.wait_gone()
    run.wait()
    # What nobody can promise: the others. They are the test's to end.
    for role in ("child", "escapee"):
        for member in scene.all(role):
            member.dismiss()
    run.keeper.wait_gone()


@pytest.mark.parametrize("stage", STAGES)
def test_front_stopped_during_a_stop_the_tree_ends_all_the_same(scene: Scene, stage: str) -> None:
    play, reach = STAGES[stage]
    run = started(scene, play)
    reach(run)
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    # Nobody continues it but the keeper, whose work is then done.
    by_signal = stage != "stdin grace"
    run.ends(signal=SIGTERM if by_signal else SIGKILL)


@pytest.mark.parametrize("stage", STAGES)
def test_keeper_stopped_during_a_stop_is_continued_at_once(scene: Scene, stage: str) -> None:
    play, reach = STAGES[stage]
    run = started(scene, play)
    reach(run)
    run.keeper.signal(SIGSTOP)
    by_signal = stage != "stdin grace"
    run.ends(signal=SIGTERM if by_signal else SIGKILL)
    assert not run.all("takeover")


# ---- stopped --------------------------------------------------------------------------------


def test_a_stopped_keeper_is_continued_at_once(scene: Scene) -> None:
    run = started(scene, POLITE)
    for _ in range(3):
        run.keeper.signal(SIGSTOP)
        run.hub.look(lambda: run.keeper.state() == "S", "it sleeps again")
    assert not run.all("takeover")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert "cleaned" in scene.member("root").notes


def test_a_stopped_front_obeys_sigterm_and_sigcont(scene: Scene) -> None:
    run = started(scene, POLITE)
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    run.front.signal(SIGTERM)
    run.front.signal(SIGCONT)
    run.ends(signal=SIGTERM)
    assert "cleaned" in scene.member("root").notes


def test_owner_killed_while_the_front_is_stopped(scene: Scene) -> None:
    run = started(scene, POLITE, owner=[])
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    run.owner.signal(SIGKILL)
    if not run.started["pidfds"]:
        run.front.signal(SIGCONT)  # the parent's death is a signal, and only the front is told
    scene.until(lambda: scene.member("root").gone and scene.member("escapee").gone, "tree gone")
    assert "cleaned" in scene.member("root").notes
    run.wait()
    run.nobody_left()


def test_stdin_ends_while_the_front_is_stopped(scene: Scene) -> None:
    run = started(scene, "root stdin=exit:3 [daemon escapee ignore ]")
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    run.close_stdin()
    run.ends(code=3)
