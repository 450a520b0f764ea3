"""As pid 1 of a container: it reaps everything, ends with the root, and mirrors its status."""

from __future__ import annotations

import os
import signal
from signal import SIGTERM

import pytest

from harness import Scene, children
from harness.member import Process
from harness.run import Run

pytestmark = pytest.mark.root

CONTAINER = ["unshare", "--fork", "--pid", "--mount-proc", "--"]


def init_of(run: Run) -> Process:
    """The supervisor, seen from outside: unshare's only child."""
    run.hub.look(lambda: children(run.process.pid), "the container's init")
    return Process.of(run.hub, children(run.process.pid)[0], "init")


def start(scene: Scene, what: str | list[str], *options: str) -> tuple[Run, Process]:
    run = scene.run(what, *options, via=CONTAINER)
    started = run.started
    assert started["front"]["pid"] == 1
    return run, init_of(run)


def finish(run: Run, init: Process, code: int) -> None:
    init.wait_gone()
    run.ends(code=code)
    init.close()


def test_status_is_mirrored_and_nobody_is_watched(scene: Scene) -> None:
    run, init = start(scene, "root")
    assert (run.started["owner"], run.started["owner_watch"]) == (None, "none")
    scene.member("root").tell("exit 42")
    finish(run, init, 42)
    assert run.events[-1]["event"] == "tree-gone"


def test_a_signal_stops_it_and_becomes_128_plus_the_number(scene: Scene) -> None:
    run, init = start(scene, "root term=clean:100:0 [daemon left ignore ]")
    root = scene.member("root")
    init.signal(SIGTERM)
    finish(run, init, 128 + SIGTERM)
    assert "cleaned" in root.notes
    # The sender lives in another pid namespace: no number of it exists here.
    assert run.event("stop", trigger="signal")["sender"]["pid"] == 0


def test_a_root_that_dies_of_a_signal(scene: Scene) -> None:
    run, init = start(scene, "root")
    scene.member("root").signal(signal.SIGSEGV)
    finish(run, init, 128 + signal.SIGSEGV)


def test_ten_thousand_orphans(scene: Scene) -> None:
    run, init = start(scene, scene.program("storm", "10000", "-1"))
    root = scene.member("root")
    root.wait_note("stormed", 90)

    def no_zombie() -> bool:
        keeper = children(init.pid)
        return len(keeper) == 1 and children(keeper[0]) == [root.pid]

    run.hub.look(no_zombie, "all are reaped while the root lives on")
    root.tell("exit 7")
    finish(run, init, 7)


@pytest.mark.still  # nsenter stops itself when its child is stopped
def test_orphans_that_are_not_of_the_root_are_reaped_too(scene: Scene) -> None:
    # What a runtime executes in the container is not below the keeper; its orphans come to pid 1.
    run, init = start(scene, "root")
    scene.member("root")
    target = ["nsenter", "--target", str(init.pid), "--pid", "--mount", "--"]
    popen = scene.start([*target, *scene.program("actor"), "guest", "[daemon", "orphan", "]"])
    guest, orphan = scene.member("guest"), scene.member("orphan")
    guest.tell("exit 0")
    guest.wait_gone()
    os.waitpid(popen.pid, 0)
    popen.returncode = 0
    orphan.tell("exit 3")
    run.hub.look(lambda: not orphan.identity.exists(), "the orphan is reaped by pid 1")
    scene.member("root").tell("exit 0")
    finish(run, init, 0)


def test_forwarded_signals_reach_the_root_once(scene: Scene) -> None:
    run, init = start(scene, "root note=USR1")
    root = scene.member("root")
    init.signal(signal.SIGUSR1)
    scene.until(lambda: root.arrivals(signal.SIGUSR1), "USR1")
    root.tell("exit 0")
    finish(run, init, 0)
    assert root.arrivals(signal.SIGUSR1) == 1


def test_leftovers_are_ended_before_it_ends(scene: Scene) -> None:
    run, init = start(scene, "root [daemon left ignore ]")
    left = scene.member("left")
    scene.member("root").tell("exit 5")
    init.wait_gone()
    assert left.gone
    finish(run, init, 5)


def test_the_keeper_is_killed(scene: Scene) -> None:
    run, init = start(scene, "root [daemon left ignore ]")
    scene.member("root")
    keeper = Process.of(scene.hub, children(init.pid)[0], "keeper")
    keeper.signal(signal.SIGKILL)
    finish(run, init, 128 + signal.SIGKILL)
    keeper.close()
    assert run.events[-1]["event"] == "tree-gone"
