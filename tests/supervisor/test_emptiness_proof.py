"""The kernel's word that nothing is left, and what is said when it cannot be had in time."""

from __future__ import annotations

import os
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from harness import Scene
from harness.freezer import freezer
from harness.run import between_ms
from harness.setuid import NOBODY, setuid_tools, with_setuid_tool


def test_zombies_never_count(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left term=exit:0 [ z1 exit=1 ] [ z2 exit=2 ] ]")
    scene.member("root")
    scene.member("z1").wait_state("Z")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("leftovers")["count"] == 1
    assert run.event("tree-gone")["stopped_count"] == 1


def test_state_z_of_a_leader_is_not_death(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore thread ]")
    left = scene.member("left")
    left.wait_state("Z")
    run.signal(SIGTERM)
    run.process.wait_gone()
    assert left.gone or not left.identity.alive()
    run.ends(signal=SIGTERM)
    assert run.event("leftovers")["count"] == 1


def test_a_root_whose_leader_thread_has_ended_is_not_over(scene: Scene) -> None:
    run = scene.run("root thread")
    root = scene.member("root")
    root.wait_state("Z")
    run.hub.quiet(lambda: run.all("root-exited"), 0.3, "an exit of the root")
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_storm_of_orphans_changes_no_status(scene: Scene) -> None:
    run = scene.run(scene.program("storm", "600", "42"), graces=(0.2, 0.5, 5.0))
    run.ends(code=42)
    assert run.event("root-exited")["code"] == 42


def test_burst_of_orphans_is_reaped_while_the_run_goes_on(scene: Scene) -> None:
    run = scene.run(scene.program("storm", "400", "-1"))
    root = scene.member("root")
    root.wait_note("stormed")
    keeper = run.keeper.pid

    def only_root_left() -> bool:
        text = Path(f"/proc/{keeper}/task/{keeper}/children").read_text()
        return [int(pid) for pid in text.split()] == [root.pid]

    run.hub.look(only_root_left, "every orphan is reaped")
    root.tell("exit 1")
    run.ends(code=1)


@pytest.mark.root
def test_a_pid_1_that_never_reaps_changes_nothing(scene: Scene) -> None:
    # The owner program waits for its own child alone, so below it orphans stay for ever.
    unshare = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--"]
    run = scene.run(
        "root term=exit:0 [daemon left ignore ] [orphan other ignore ]",
        via=[*unshare, *scene.program("owner"), "--role", "init", "--"],
    )
    init, left = scene.member("init"), scene.member("left")
    scene.member("root").tell("exit 8")
    scene.until(lambda: init.child_status is not None, "the front has ended")
    assert os.WEXITSTATUS(init.child_status) == 8
    assert left.gone
    assert run.events[-1]["event"] == "tree-gone"
    init.dismiss()
    run.wait()


@pytest.mark.root
def test_a_frozen_member_is_not_called_gone(scene: Scene) -> None:
    with freezer() as cold:
        run = scene.run("root term=exit:0 [ left ignore ]", graces=(0.2, 0.3, 0.5))
        left = scene.member("left")
        keeper = run.keeper
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        ended = run.wait()
        assert ended.code == 1
        assert left.identity.alive()
        stop, unproven = run.event("stop"), run.event("tree-unproven")
        assert 800 <= between_ms(stop, unproven) < 800 + 500
        [member] = unproven["remaining"]
        assert (member["pid"], member["start"]) == (left.pid, left.identity.start)
        assert member["kill_error"] is None, "it was delivered; it has no effect yet"
        assert (unproven["remaining_count"], unproven["keeper_stays"]) == (1, True)
        assert not run.all("tree-gone")
        assert not keeper.gone
        assert keeper.identity.alive()
        cold.thaw()
        keeper.wait_gone()
    late = run.event("tree-gone")
    assert late["late"] is True
    assert late["remaining"] == 0
    run.nobody_left()


@pytest.mark.root
def test_the_keeper_that_stays_kills_what_it_adopts(scene: Scene) -> None:
    with freezer() as cold:
        run = scene.run(
            "root term=exit:0 [ left ignore ] [daemon holder ignore [daemon late ignore ] ]",
            graces=(0.2, 0.3, 0.5),
        )
        left, late = scene.member("left"), scene.member("late")
        keeper = run.keeper
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        assert run.wait().code == 1
        assert late.gone
        assert not keeper.gone
        left.tell("spawn [daemon adopted ignore ]")
        cold.thaw()
        keeper.wait_gone()
    run.nobody_left()


@pytest.mark.root
def test_a_set_uid_root_tool_below_an_unprivileged_supervisor(scene: Scene, tmp_path: Path) -> None:
    with setuid_tools(tmp_path) as tools:
        run = scene.run(
            with_setuid_tool(tools),
            via=[*scene.program("enter"), "--uid", str(NOBODY), "--"],
            binary=str(tools / "supervisor"),
            graces=(0.2, 0.3, 0.5),
        )
        scene.member("root")
        left = scene.member("left")
        keeper = run.keeper
        run.signal(SIGTERM)
        assert run.wait().code == 1
        [member] = run.event("tree-unproven")["remaining"]
        assert (member["pid"], member["kill_error"], member["uid"]) == (left.pid, "EPERM", 0)
        assert not keeper.gone
        assert left.alive()
        left.tell("exit 0")
        keeper.wait_gone()
        assert run.event("tree-gone")["late"] is True
        run.nobody_left()


def test_a_killed_root_needs_no_second_kill(scene: Scene) -> None:
    run = scene.run("root")
    scene.member("root").signal(SIGKILL)
    run.ends(signal=SIGKILL)
    assert not run.all("signalled")
    assert run.event("root-exited")["signal"] == "KILL"


def test_an_agent_that_kills_its_own_group_does_not_hit_the_supervisor(scene: Scene) -> None:
    run = scene.run("root [daemon tool ignore ] [ child ] kill-zero")
    scene.member("tool")
    run.ends(signal=SIGKILL)
    assert not run.all("signalled", target="root-group")
    pids = [member["pid"] for member in run.event("leftovers")["members"]]
    assert scene.member("tool").pid in pids
