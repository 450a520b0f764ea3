"""One system call of front or keeper goes wrong, once: what must hold whatever it was.

Each round runs a polite root with a child and an escapee that ignore SIGTERM, lets call K go wrong,
stops the run with SIGTERM if it is still there, and checks: nobody is left, the front ended within
its bound, no `tree-gone` was written while somebody lived, no stranger had a signal.
"""

from __future__ import annotations

import errno
from pathlib import Path
from signal import SIGCONT, SIGTERM

from harness import Member, Scene
from harness.identity import read_stat, take
from harness.member import Process
from harness.run import Run

TREE = "root term=clean:20:0 [ child ignore ] [daemon escapee ignore ]"
GRACES = (0.1, 0.2, 1.5)
ROLES = ("front", "keeper")
WHAT = (str(errno.ENOMEM), str(errno.EINTR), str(errno.EIO), "kill", "stop")
# MAX_STOP, the time that a stop may wait to be taken up, and what a machine under load may need.
BOUND_SECONDS = sum(GRACES) + 0.5 + 10

# Calls that no kernel fails and that have no answer to fail with.
END_OF_CALLS = 0


def front_of(inject: Member) -> int | None:
    """The only child of the program that injects, or None when it has gone."""
    try:
        text = Path(f"/proc/{inject.pid}/task/{inject.pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.split()[0]) if text.split() else None


def ask_to_stop(scene: Scene, inject: Member) -> None:
    """SIGTERM to the front, and SIGCONT after it, as whoever stops a supervisor does."""
    pid = front_of(inject)
    if pid is None:
        return
    try:
        identity = take(pid)
    except (FileNotFoundError, ProcessLookupError):
        return
    front = Process(scene.hub, identity.pid, identity.start, "front")
    if not front.gone:
        for number in (SIGTERM, SIGCONT):
            try:
                front.signal(number)
            except ProcessLookupError:
                break
    front.close()


def round_(scene: Scene, role: str, k: int, what: str) -> int:
    """One round; the number of the system call that was hit, or END_OF_CALLS."""
    known = {name: len(scene.all(name)) for name in ("inject", "root")}
    run = scene.run(TREE, graces=GRACES, via=[*scene.program("inject"), role, str(k), what, "--"])

    def new(name: str) -> list[Member]:
        return scene.all(name)[known[name] :]

    scene.until(lambda: new("inject"), "inject says hello")
    [inject] = new("inject")
    stuck = role == "front" and what == "stop"
    scene.until(
        lambda: new("root") or run.process.gone or (stuck and hit(inject)),
        f"{role} call {k} {what}: the root runs, or nothing was started",
    )
    if not (stuck and hit(inject)):
        ask_to_stop(scene, inject)
    if stuck:  # the call may be one of the stop's own
        scene.until(lambda: hit(inject) or run.process.gone, "the end, or one more stop")
        scene.hub.look(lambda: run.process.gone or is_stopped(inject), "the front is stopped")
        ask_to_stop(scene, inject)
    run.wait(BOUND_SECONDS)
    scene.hub.round(0)
    told = [event for event in run.events if event["event"] == "tree-gone"]
    tree = [m for name in ("root", "child", "escapee") for m in scene.all(name) if not m.gone]
    assert not (told and tree), f"tree-gone while {tree} lived\n{run}"
    scene.hub.look(lambda: not scene.strangers(), f"nobody left after {role} {k} {what}\n{run}")
    call = hit(inject)
    finish(scene, run)
    return call


def is_stopped(inject: Member) -> bool:
    pid = front_of(inject)
    stat = read_stat(pid) if pid is not None else None
    return stat is not None and stat.state == "T"


def hit(inject: Member) -> int:
    """The call's number plus one, so that read(2), number 0, is not the end; END_OF_CALLS else."""
    numbers = [int(note.split()[1]) + 1 for note in inject.notes if note.startswith("hit")]
    return numbers[0] if numbers else END_OF_CALLS


def finish(scene: Scene, run: Run) -> None:
    """Lets the descriptors of a round go: there will be many."""
    run.close()
    for member in scene.members:
        if member.gone:
            member.close()
    scene.members = [member for member in scene.members if not member.gone]
