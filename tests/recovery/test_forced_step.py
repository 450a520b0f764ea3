"""The forced step against stuck supervisors: everything dead, or nothing touched at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from dataclasses import replace
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene, children, descendants
from harness.forcing import ROLES, RUDE, forced_line, stop_both, target, untouched
from harness.harm import hold, lose_both
from harness.kernels import needs_inodes
from harness.run import Run
from lastout import identity, sweep, tree
from lastout.forced import Target, force
from lastout.pause import Pause
from lastout.proctable import read_stat
from lastout.recovery import case as cases
from lastout.recovery.act import recover
from lastout.recovery.case import Asker


def test_everything_below_stuck_supervisors_is_killed_and_they_go_last(scene: Scene) -> None:
    run = scene.run(RUDE)
    members = [scene.member(role) for role in ROLES]
    stop_both(run)
    verdict = force(target(run))
    assert (verdict.kind, verdict.how, verdict.root_gone) == ("killed", "forced", True)
    assert verdict.evidence["tree_empty"]
    assert verdict.evidence["paused"] == {"front": True, "keeper": True}
    assert verdict.evidence["remaining"] == []
    for member in (*members, run.front, run.keeper):
        member.wait_gone()
    run.nobody_left()
    line = forced_line(run)
    assert line["verdict"] == "killed"
    assert line["detail"]["how"] == "forced"
    named = {one["pid"] for one in line["detail"]["signalled"]}
    assert named <= {member.pid for member in members}
    assert not run.all("tree-gone"), "a delivered kill is never called an exit"


def test_supervisors_that_are_not_stopped_are_paused(scene: Scene) -> None:
    run = scene.run(RUDE)
    members = [scene.member(role) for role in ROLES]
    verdict = force(target(run))
    assert (verdict.kind, verdict.how) == ("killed", "forced")
    for member in members:
        member.wait_gone()
    run.nobody_left()


def test_nothing_left_to_signal_is_an_exit(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")
    stop_both(run)
    root.tell("exit 3")
    scene.until(lambda: root.state() == "Z", "the root is a zombie that its keeper does not reap")
    verdict = force(target(run))
    assert (verdict.kind, verdict.how, verdict.root_gone) == ("exited", "nothing-left", True)
    run.front.wait_gone()
    run.keeper.wait_gone()
    run.nobody_left()


def test_a_second_step_does_not_turn_a_delivered_kill_into_an_exit(scene: Scene) -> None:
    run = scene.run("root")
    scene.member("root")
    stop_both(run)
    aim = target(run)
    first = force(aim)
    again = force(aim)
    assert first.kind == again.kind == "killed"


def test_a_reaped_root_leaves_the_members_alone_to_be_taken(scene: Scene) -> None:
    run = scene.run("root [daemon escapee ignore ] [ child ignore ] exit=0", "--leftovers", "wait")
    members = [scene.member("escapee"), scene.member("child")]
    run.event("reaped", who="root")
    stop_both(run)
    verdict = force(target(run))
    assert (verdict.kind, verdict.root_gone) == ("killed", True)
    for member in members:
        member.wait_gone()
    run.nobody_left()


def without_inodes(aim: Target) -> Target:
    """As a kernel without pidfs names them: by start times, in ticks of 10 ms."""
    names = ("front", "keeper", "root")
    return replace(aim, **{name: replace(getattr(aim, name), inode=0) for name in names})


def no_groups(fd: int, number: int) -> None:
    raise OSError(errno.EINVAL, "a pidfd stands for one process")


def adopted(scene: Scene, root: str = "root") -> tuple[Run, Target]:
    """A front that has lost its keeper, has the tree, and stands still."""
    run = scene.run(f"{root} ignore [daemon escapee ignore ]", graces=(0.2, 10, 5))
    scene.until(lambda: len(scene.all("escapee")) == len(scene.runs), "the tree")
    escapee = scene.all("escapee")[-1]
    aim = target(run)
    run.keeper.signal(SIGKILL)
    scene.hub.look(lambda: escapee.pid in children(run.front.pid), "the front has adopted it")
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    return run, aim


def test_members_of_the_keepers_own_clock_tick_are_members(scene: Scene) -> None:
    for _ in range(20):
        run, aim = adopted(scene)
        escapee = scene.all("escapee")[-1]
        tick = escapee.identity.start == aim.keeper.start
        verdict = force(without_inodes(aim))
        assert (verdict.kind, verdict.root_gone) == ("killed", True)
        escapee.wait_gone()
        run.front.wait_gone()
        if tick:
            return
    pytest.skip("no tree came up within the tick of its keeper")


@pytest.mark.parametrize("seen", ["dead-already", "killed-by-the-step"])
def test_who_may_be_the_fronts_own_is_not_killed_and_nothing_is_called_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    root = "root"
    if seen == "killed-by-the-step":  # and by a signal of its own, as before Linux 6.9
        root = "root no-deathsig"
        monkeypatch.setattr(tree, "signal_group", no_groups)
    run, aim = adopted(scene, root)
    escapee = scene.all("escapee")[-1]
    blind = without_inodes(replace(aim, record=None))  # which would say that it inherited nobody
    verdict = force(replace(blind, keeper=replace(blind.keeper, start=escapee.identity.start)))
    assert (verdict.kind, verdict.how) == ("unproven", "cannot-tell")
    assert escapee.alive()
    run.front.signal(SIGKILL)
    escapee.dismiss()
    run.wait()
    run.nobody_left()


@needs_inodes  # without, all of it can be of one clock tick
def test_a_front_that_has_adopted_the_tree_and_what_it_had_before(scene: Scene) -> None:
    """Children that the front inherited through exec are none of the run."""
    via = ("sh", "-c", '"$0" foreign & exec "$@"', scene.program("actor")[0])
    run = scene.run("root ignore [daemon escapee ignore ]", via=via, graces=(0.2, 10, 5))
    foreign = scene.member("foreign")
    scene.expect(foreign)
    members = [scene.member("root"), scene.member("escapee")]
    aim = target(run)
    run.keeper.signal(SIGKILL)
    escapee = members[1]
    scene.until(lambda: read_stat(escapee.pid).ppid == run.front.pid, "the front has adopted it")
    run.front.signal(SIGSTOP)
    run.front.wait_state("T")
    verdict = force(aim)
    assert (verdict.kind, verdict.root_gone) == ("killed", True)
    for member in (*members, run.front):
        member.wait_gone()
    assert foreign.alive()


def test_a_keeper_that_has_lost_its_front(scene: Scene) -> None:
    run = scene.run("root ignore [daemon escapee ignore ]", graces=(0.2, 10, 5))
    members = [scene.member("root"), scene.member("escapee")]
    aim = target(run)
    run.keeper.signal(SIGSTOP)
    run.front.signal(SIGKILL)
    run.front.wait_gone()
    verdict = force(aim)
    assert (verdict.kind, verdict.root_gone) == ("killed", True)
    for member in (*members, run.keeper):
        member.wait_gone()
    run.nobody_left()


def test_adopted_tools_look_like_the_root_and_the_root_is_named_by_its_identity(
    scene: Scene,
) -> None:
    """Each leads a group of its own below the keeper; the root's death decides the verdict."""
    run = scene.run("root ignore " + "[orphan tool ignore setsid ] " * 5)
    root = scene.member("root")
    scene.until(lambda: len(scene.all("tool")) == 5, "five tools")
    stop_both(run)
    verdict = force(target(run))
    assert verdict.root_gone
    for member in (root, *scene.all("tool")):
        member.wait_gone()


RESUMER = (
    "import os, signal, sys\n"
    "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
    "print(pid, flush=True)\n"
    "while True:\n"
    "    _, status = os.waitpid(pid, os.WUNTRACED)\n"
    "    if not os.WIFSTOPPED(status): os._exit(0)\n"
    "    os.kill(pid, signal.SIGCONT)\n"
)


@pytest.mark.still
def test_a_parent_that_resumes_its_stopped_child(scene: Scene) -> None:
    """As tmux does. The kill lands all the same."""
    run = scene.run(
        "root ignore [daemon escapee ignore ]",
        via=(sys.executable, "-S", "-E", "-c", RESUMER),
        graces=(0.2, 10, 5),
    )
    members = [scene.member("root"), scene.member("escapee")]
    verdict = force(target(run))
    assert verdict.kind == "killed"
    assert verdict.root_gone
    for member in members:
        member.wait_gone()
    run.keeper.wait_gone()
    run.process.wait_gone()
    run.nobody_left()


def test_a_pause_that_does_not_hold_is_seen_and_not_fought_for_ever() -> None:
    argv = [sys.executable, "-S", "-E", "-c", RESUMER, "/bin/sleep", "60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = identity.take(int(parent.stdout.readline()))
        pause = Pause([child])
        pause.take()
        while pause.held(child)["front"]:
            pause.check()  # until it has been resumed more often than it is stopped again
        assert identity.still_alive(child) is identity.Alive.YES
        pause.kill()
        assert identity.still_alive(child) is identity.Alive.NO


@pytest.mark.parametrize(
    "program",
    [("respawner", "20"), ("storm", "20000", "-1"), ("crowd", "300")],
    ids=lambda one: one[0],
)
def test_trees_that_fork_faster_than_one_can_list_them(
    scene: Scene, program: tuple[str, ...]
) -> None:
    run = scene.run(scene.program(*program), graces=(0.2, 10, 5))
    keeper = run.started["keeper"]["pid"]
    scene.hub.look(lambda: len(descendants(keeper)) > 2, "it is at work")
    aim = target(run)
    verdict = force(aim)
    assert verdict.kind == "killed", verdict
    assert verdict.root_gone
    assert verdict.evidence["ms"] < 4500
    if not verdict.evidence.get("tree_empty"):
        # Not done within its bound: both were resumed, and end what is left.
        run.keeper.wait_gone()
    run.front.wait_gone()
    run.nobody_left()


def test_one_teardown_at_a_time_and_a_retry_joins_it(scene: Scene) -> None:
    run = scene.run("root ignore [daemon escapee ignore ]", graces=(0.1, 0.2, 0.2))
    members = [scene.member("root"), scene.member("escapee")]
    hold((run.front, run.keeper))
    case = cases.of_record(str(target(run).record))
    results = []

    def ask() -> None:
        results.append(recover(case, asker=Asker(stop=True)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.verdict.kind for one in results if one.verdict} == {"killed"}
    assert sum("force" in one.steps for one in results) == 1
    assert len(run.all("forced")) == 1
    assert len(run.all("closed")) == 1
    for member in members:
        member.wait_gone()


@needs_inodes
def test_a_group_of_a_dead_root_is_still_its_own(scene: Scene) -> None:
    """Both supervisors and the wrapper root are dead; the child that writes is not. It is found
    by the root's session, and killed: nobody can have been given that number."""
    run = scene.run("root [ writer ignore ] [ tool ignore setpgid ]")
    members = [scene.member("writer"), scene.member("tool")]
    aim = target(run)
    lose_both(run)
    verdict = force(aim)
    assert (verdict.kind, verdict.how, verdict.root_gone) == ("killed", "forced", True)
    for member in members:
        member.wait_gone()
    run.nobody_left()


def test_a_session_of_somebody_else_is_not_touched(scene: Scene) -> None:
    """Without the kernel's word for whose group it is: nothing is killed, nothing is claimed."""
    run = scene.run("root [ writer ignore ]")
    writer = scene.member("writer")
    aim = target(run)
    lose_both(run)
    os.waitpid(run.process.pid, 0)
    blind = replace(aim, root=replace(aim.root, inode=0))
    verdict = force(blind)
    assert verdict.kind == "unproven"
    assert writer.alive()
    scene.expect(writer)


def test_a_pause_ends_with_the_step_also_when_it_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.run("root")
    root = scene.member("root")
    with monkeypatch.context() as patch:
        patch.setattr(sweep.Sweep, "run", lambda self, due: (_ for _ in ()).throw(OSError(5, "x")))
        verdict = force(target(run))
    assert verdict.how == "table-unreadable"
    untouched(run, [root])
    run.front.signal(SIGCONT)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
