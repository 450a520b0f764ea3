"""Rude programs as they are met, one by one: what each does, and what must have happened to it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Member, Scene
from harness.freezer import freezer
from harness.run import Run, between_ms


def stop_by_stdin(run: Run) -> None:
    run.close_stdin()


def gone(*members: Member) -> bool:
    return all(member.gone for member in members)


def test_agent_whose_tools_have_sessions_of_their_own(scene: Scene) -> None:
    run = scene.run("root term=exit:0 stdin=exit:0 [ a setsid ] [ b setsid ignore ] [ c setpgid ]")
    tools = [scene.member(role) for role in "abc"]
    scene.member("root")
    stop_by_stdin(run)
    run.ends(code=0)
    assert gone(*tools)
    assert run.event("leftovers")["count"] == 3


def test_daemon_by_double_fork(scene: Scene) -> None:
    run = scene.run("root stdin=exit:0 [daemon daemon null ignore ]")
    daemon = scene.member("daemon")
    scene.member("root")
    stop_by_stdin(run)
    run.ends(code=0)
    assert gone(daemon)
    assert run.event("tree-gone")["killed_count"] == 1


def test_terminate_is_ignored_by_root_and_child(scene: Scene) -> None:
    run = scene.run("root ignore [ child ignore ]")
    scene.member("root")
    stop_by_stdin(run)
    run.ends(signal=SIGKILL)
    line = run.event("signalled", signal="KILL")
    assert line["target"] == "tree"
    assert run.event("root-exited")["signal"] == "KILL"


def test_wrappers_that_die_without_passing_the_signal_on(scene: Scene) -> None:
    run = scene.run(scene.program("wrapper_chain"))
    leaf = scene.member("leaf")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert gone(leaf)
    exited, end = run.event("root-exited"), run.event("tree-gone")
    assert between_ms(exited, end) > 0, "the root's end is not the end of the agent"


def test_a_tool_with_an_empty_environment_and_a_foreign_name(scene: Scene) -> None:
    run = scene.run(scene.program("env_scrub"), "--stdin-end", "ignore")
    scrubbed, tagged = scene.member("scrubbed"), scene.member("tagged")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert gone(scrubbed, tagged)


def test_an_innocent_with_the_agents_environment_and_name_lives(scene: Scene) -> None:
    innocent = scene.bystander("innocent")
    run = scene.run("root [daemon left ignore ]")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert innocent.alive(), "same program, same environment, not a descendant"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_server_that_makes_itself_independent(scene: Scene) -> None:
    run = scene.run(scene.program("tmux_server"))
    server, pane = scene.member("tmux-server"), scene.member("tmux-pane")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert gone(server, pane)


def test_vfork_parent_in_state_d(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [vfork child ignore ]")
    child, root = scene.member("child"), scene.member("root")
    root.wait_state("D")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert gone(child, root)


def test_hydra_and_respawner_leave_no_generation(scene: Scene) -> None:
    for name in ("hydra", "respawner"):
        run = scene.run(scene.program(name), graces=(0.3, 0.3, 5.0))
        scene.until(lambda run=run: len(scene.all("root")) == len(scene.runs), name)
        stop_by_stdin(run)
        run.ends(code=0)


def test_exit_codes_that_look_like_signals(scene: Scene) -> None:
    for code in (124, 137, 143, 255):
        run = scene.run(f"root print=last-words exit={code}")
        run.ends(code=code)
        assert run.output_text() == "last-words\n"
        assert run.event("root-exited")["signal"] is None


def test_a_child_that_holds_the_output(scene: Scene) -> None:
    run = scene.run("root print=finished [ holder ] exit=0")
    run.ends(code=0)
    assert run.event("leftovers")["count"] == 1
    assert run.event("stop", trigger="root-exited")


def test_end_of_input_is_not_an_exit(scene: Scene) -> None:
    run = scene.run("root close=0 close=1 close=2")
    root = scene.member("root")
    run.hub.quiet(lambda: run.all("stop") or root.gone, 0.3, "a stop")
    root.tell("exit 5")
    run.ends(code=5)


def test_stdin_closed_unread_with_a_mebibyte_on_its_way(scene: Scene) -> None:
    run = scene.run("root close=0")
    root = scene.member("root")
    failed: list[BaseException] = []

    def write() -> None:
        try:
            while True:
                os.write(run.stdin, b"x" * (1 << 20))
        except OSError as error:
            failed.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    root.tell("exit 42")
    run.ends(code=42)
    writer.join(30)
    assert not writer.is_alive(), "EPIPE, not a writer that hangs for ever"
    assert isinstance(failed[0], BrokenPipeError)


def test_an_agent_that_saves_is_not_cut_off(scene: Scene, tmp_path: Path) -> None:
    log = tmp_path / "session.log"
    run = scene.run(scene.program("session_writer", str(log), "900"), graces=(0.2, 4.0, 5.0))
    root = scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    lines = log.read_text().splitlines()
    assert lines[-1] == f"END {root.pid}"
    assert run.event("root-exited")["code"] == 0


def test_a_lock_that_a_tool_inherited(scene: Scene) -> None:
    shell = 'exec 9>held; flock 9; "$0" heir setsid ignore & exec "$0" root stdin=exit:0'
    run = scene.run(["sh", "-c", shell, *scene.program("actor")])
    heir = scene.member("heir")
    scene.member("root")
    stop_by_stdin(run)
    run.ends(code=0)
    assert gone(heir)


def test_kill_zero(scene: Scene) -> None:
    run = scene.run("root [daemon tool ignore ] kill-zero")
    tool = scene.member("tool")
    run.ends(signal=SIGKILL)
    assert gone(tool)
    assert run.event("root-exited")["signal"] == "KILL"


@pytest.mark.root
def test_a_frozen_tool_in_the_roots_group(scene: Scene) -> None:
    with freezer() as cold:
        run = scene.run("root term=exit:0 [ tool ignore ]", graces=(0.1, 0.2, 0.4))
        tool = scene.member("tool")
        keeper = run.keeper
        cold.freeze(tool.pid)
        run.signal(SIGTERM)
        assert run.wait().code == 1
        assert run.event("tree-unproven")["remaining"][0]["pid"] == tool.pid
        cold.thaw()
        tool.wait_gone()
        keeper.wait_gone()
    assert run.event("tree-gone", late=True)


def test_a_storm_of_orphans(scene: Scene) -> None:
    run = scene.run(scene.program("storm", "1500", "42"))
    run.ends(code=42)


def test_a_machine_that_is_late(scene: Scene) -> None:
    run = scene.run(scene.program("busy", "6", "2"), graces=(0.2, 0.5, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    asked = run.event("signalled", signal="TERM", target="root-group")
    assert between_ms(asked, run.event("signalled", signal="KILL")) >= 500
    assert not run.all("takeover"), "late is not lost"
    assert not run.all("tree-unproven")


def test_stopped_for_longer_than_its_grace_it_gets_its_time_once(scene: Scene) -> None:
    # Front and keeper stopped together, as by a freezer or a suspend: the root had no chance.
    run = scene.run("root note=TERM", graces=(0.2, 0.5, 5.0))
    root = scene.member("root")
    front, keeper = run.front, run.keeper
    run.signal(SIGTERM)
    scene.until(lambda: root.arrivals(SIGTERM), "SIGTERM")
    root.signal(SIGSTOP)
    front.signal(SIGSTOP)
    front.wait_state("T")
    keeper.signal(SIGSTOP)
    keeper.wait_state("T")
    run.hub.quiet(lambda: root.gone, 1.5, "an end while all stand still")
    for process in (root, keeper, front):
        process.signal(SIGCONT)
    run.hub.quiet(lambda: root.gone, 0.2, "SIGKILL in the moment of waking")
    root.tell("exit 6")
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["code"] == 6


def test_a_pid_that_now_is_somebody_else(scene: Scene) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to choose a pid")
    dead = scene.bystander("dead")
    scene.end(dead)
    popen = scene.start(scene.program("take_pid", str(dead.pid), *scene.program("actor"), "heir"))
    scene.until(lambda: scene.all("heir") or popen.poll() is not None, "the pid is taken")
    if popen.returncode is not None:
        pytest.skip("the pid was not to be had")
    heir = scene.member("heir")
    assert heir.pid == dead.pid
    run = scene.run("root", "--owner", f"{dead.pid}:{dead.identity.start}")
    run.wait()
    assert run.event("refused", reason="owner")
    assert heir.alive()
    heir.dismiss()
    os.waitpid(popen.pid, 0)
    popen.returncode = 0


@pytest.mark.torture
def test_a_thousand_leftovers(scene: Scene) -> None:
    for _ in range(5):
        run = scene.run(scene.program("crowd", "1000"), graces=(0.2, 0.4, 5.0))
        scene.until(lambda: len(scene.all("root")) == len(scene.runs), "the crowd")
        run.signal(SIGTERM)
        run.ends(signal=SIGTERM, bound=60)
        assert run.event("tree-gone")["killed_count"] == 1000


@pytest.mark.torture
@pytest.mark.parametrize(("loops", "hop_us"), [(16, 0), (16, 100), (4, 2000)])
def test_hydra_many_times(scene: Scene, loops: int, hop_us: int) -> None:
    for _ in range(20):
        run = scene.run(scene.program("hydra", str(loops), str(hop_us)), graces=(0.2, 0.2, 5.0))
        scene.until(lambda: len(scene.all("root")) == len(scene.runs), "the hydra")
        run.signal(SIGTERM)
        run.ends(signal=SIGTERM, bound=60)
