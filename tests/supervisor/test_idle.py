"""Idle costs nothing: no timer, no polling, no wake-up while a run is quiet."""

from __future__ import annotations

import time
from pathlib import Path
from signal import SIGTERM

import pytest

from harness import Scene
from harness.run import Run

pytestmark = pytest.mark.quiet


def switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    counts = [line.split()[1] for line in text.splitlines() if "ctxt_switches" in line]
    return sum(map(int, counts))


def settle(run: Run) -> tuple[int, int]:
    """The counters once both are asleep after the start."""
    pids = run.started["front"]["pid"], run.started["keeper"]["pid"]
    last = [(-1, -1)]

    def same() -> bool:
        now = (switches(pids[0]), switches(pids[1]))
        same = now == last[0]
        last[0] = now
        run.hub.round(0.05)
        return same

    run.hub.look(same, "front and keeper are quiet")
    return last[0]


PLAYS = {
    "plain": ("root", []),
    "with an owner, a deadline of input and a leftover": ("root [daemon left ]", []),
    "with a far timeout": ("root", ["--timeout", "3600"]),
    "with a long budget": ("root ignore", ["--term-grace", "30"]),
}


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("window", [1.0, pytest.param(10.0, marks=pytest.mark.torture)])
def test_no_context_switch_while_the_run_is_quiet(scene: Scene, play: str, window: float) -> None:
    actors, options = PLAYS[play]
    run = scene.run(actors, *options, owner=[], control=True)
    scene.member("root")
    before = settle(run)
    time.sleep(window)  # the subject is that nothing happens in this time
    after = switches(run.started["front"]["pid"]), switches(run.started["keeper"]["pid"])
    assert after == before
    run.command(cmd="stop", grace_ms=0)
    run.wait()
    run.nobody_left()


def test_none_after_stdin_of_a_run_that_ignores_it_has_ended(scene: Scene) -> None:
    run = scene.run("root", "--stdin-end", "ignore")
    scene.member("root")
    run.close_stdin()
    before = settle(run)
    time.sleep(0.7)  # the subject is that nothing happens in this time
    assert settle(run) == before
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_none_while_leftovers_are_waited_for(scene: Scene) -> None:
    run = scene.run("root [daemon left ]", "--leftovers", "wait")
    left = scene.member("left")
    scene.member("root").tell("exit 3")
    run.event("reaped", who="root")
    run.close_stdin()
    before = settle(run)
    time.sleep(0.7)  # the subject is that nothing happens in this time
    assert settle(run) == before
    left.tell("exit 0")
    run.ends(code=3)
