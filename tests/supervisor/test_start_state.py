"""What the supervisor is started with, and what the root then starts with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from harness import Scene
from harness.programs import supervisor_binary
from harness.run import Run

HUP, INT, QUIT, TERM, USR1 = (1 << (n - 1) for n in (1, 2, 3, 15, 10))


def census(run: Run, code: int = 0) -> dict[str, Any]:
    run.ends(code=code)
    counted: dict[str, Any] = json.loads(run.output_text())
    return counted


def enter(scene: Scene, *state: str) -> list[str]:
    return [*scene.program("enter"), *state, "--"]


def test_what_the_root_inherits(scene: Scene) -> None:
    run = scene.run(scene.program("census"), env={"CENSUS": "as it was"})
    seen = census(run)
    started = run.started
    assert sorted(seen["fds"]) == ["0", "1", "2"], "no descriptor of ours reaches the root"
    assert (seen["blocked"], seen["ignored"]) == (0, 0)
    assert seen["sid"] == seen["pgid"] == seen["pid"] == started["root"]["pid"]
    assert seen["ppid"] == started["keeper"]["pid"]
    assert seen["pdeathsig"] == 9
    assert seen["tty"] is False
    assert seen["env"] == "as it was"
    assert seen["cwd"] == str(scene.directory)
    assert seen["fds"]["1"] == str(run.output)


def test_front_and_keeper_are_where_a_callers_kill_does_not_reach_both(scene: Scene) -> None:
    run = scene.run("root")
    scene.member("root")
    front, keeper = (_stat(run.started[w]["pid"]) for w in ("front", "keeper"))
    assert keeper.pgid == keeper.pid != front.pgid
    assert keeper.session == keeper.pid, "no controlling terminal: a session of its own"
    for process, name in ((front, "front"), (keeper, "keeper")):
        path = Path(f"/proc/{process.pid}/cmdline")
        what = f"a kill by the agent's name must not hit the {name}"
        scene.hub.look(lambda path=path: b"actor" not in path.read_bytes(), what)
        assert b"lastout-supervisor" in path.read_bytes()
    assert "actor" not in keeper.comm
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def _stat(pid: int) -> Any:
    from harness import read_stat

    stat = read_stat(pid)
    assert stat is not None
    return stat


def test_inherited_descriptors_are_passed_on(scene: Scene, tmp_path: Path) -> None:
    with (tmp_path / "extra").open("w") as extra:
        run = scene.run(scene.program("census"), fds=[extra.fileno()])
        seen = census(run)
        assert seen["fds"][str(extra.fileno())] == extra.name


def test_inherited_descriptors_are_not_held_by_the_supervisor(scene: Scene) -> None:
    # Somebody waits for the end of a pipe whose write end only the root shall have.
    read_end, write_end = os.pipe()
    run = scene.run(f"root close={write_end} [daemon left null ignore ]", fds=[write_end])
    os.close(write_end)
    scene.member("root")
    seen = []
    scene.hub.add(read_end, lambda: seen.append(os.read(read_end, 1)))
    # The leftover was forked after the root had closed it.
    scene.until(lambda: seen, "the end of the pipe while the run goes on")
    scene.hub.remove(read_end)
    os.close(read_end)
    assert seen[0] == b""
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_close_fds_leaves_what_was_asked_for(scene: Scene, tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w") as kept, (tmp_path / "other").open("w") as other:
        run = scene.run(
            scene.program("census"), "--close-fds", "--keep-fd", str(kept.fileno()),
            fds=[kept.fileno(), other.fileno()], control=True,
        )  # fmt: skip
        seen = census(run)
        assert sorted(seen["fds"]) == sorted(["0", "1", "2", str(kept.fileno())])


def test_the_control_socket_is_not_passed_on(scene: Scene) -> None:
    run = scene.run(scene.program("census"), control=True)
    assert sorted(census(run)["fds"]) == ["0", "1", "2"]


def test_options_for_the_root_alone(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    run = scene.run(
        scene.program("census"), "--chdir", str(tmp_path / "there"), "--umask", "027",
        "--argv0", "another name", "--rlimit", "CORE=0:1024",
    )  # fmt: skip
    seen = census(run)
    assert seen["cwd"] == str(tmp_path / "there") == run.started["cwd"]
    assert (seen["umask"], seen["argv0"], seen["core"]) == (0o027, "another name", [0, 1024])


@pytest.mark.root
def test_user_and_groups_of_the_root(scene: Scene) -> None:
    run = scene.run(
        scene.program("census"), "--uid", "54321", "--gid", "54322", "--groups", "54323,54324"
    )
    seen = census(run)
    assert (seen["uid"], seen["gid"], seen["groups"]) == (54321, 54322, [54323, 54324])
    assert seen["pdeathsig"] == 9, "armed after the change of credentials"
    assert (run.started["uid"], run.started["gid"]) == (54321, 54322)


def test_ignored_sigchld_loses_no_status(scene: Scene) -> None:
    run = scene.run("root exit=23", via=enter(scene, "--ignore", "CHLD"))
    run.ends(code=23)


def test_blocked_signals_still_stop_it_and_are_not_blocked_in_the_root(scene: Scene) -> None:
    run = scene.run("root [ child ]", via=enter(scene, "--block", "TERM,INT,HUP,CHLD,USR1"))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["signal"] == "TERM"


def test_clean_defaults_in_the_root_whatever_was_blocked_or_ignored(scene: Scene) -> None:
    via = enter(scene, "--block", "TERM,HUP,CHLD,USR2", "--ignore", "CHLD,PIPE,TERM,USR1,ALRM,TSTP")
    seen = census(scene.run(scene.program("census"), via=via))
    assert (seen["blocked"], seen["ignored"]) == (0, 0)


def test_ignored_hup_int_and_quit_stay_ignored(scene: Scene) -> None:
    run = scene.run(scene.program("census"), via=enter(scene, "--ignore", "HUP,INT,QUIT"))
    assert census(run)["ignored"] == HUP | INT | QUIT


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]], ids=str)
def test_closed_standard_descriptors_are_filled_and_never_left_free(
    scene: Scene, closed: list[int], tmp_path: Path
) -> None:
    target = tmp_path / "census.json"
    state = [word for fd in closed for word in ("--close", str(fd))]
    shell = f'"$0" > {target}'
    run = scene.run(["sh", "-c", shell, *scene.program("census")], via=enter(scene, *state))
    run.ends(code=0)
    seen = json.loads(target.read_text())
    assert sorted(seen["fds"]) == ["0", "1", "2"]
    for fd in closed:
        if fd != 1:
            assert seen["fds"][str(fd)] == "/dev/null"


def test_closed_standard_descriptors_with_a_control_socket_and_a_stop(scene: Scene) -> None:
    state = enter(scene, "--close", "0", "--close", "1", "--close", "2")
    run = scene.run("root [daemon left ignore ]", via=state, control=True)
    scene.member("root")
    run.command(cmd="stop", reason="user")
    run.answer("tree-gone")
    run.wait()
    run.nobody_left()


@pytest.mark.root
def test_fork_refused_for_lack_of_processes(scene: Scene, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    (tmp_path / "run1.jsonl").touch()
    (tmp_path / "run1.jsonl").chmod(0o666)
    run = scene.run("root", via=enter(scene, "--limit", "NPROC=0", "--uid", "54321"))
    run.ends(code=125)
    failed = run.event("failed", reason="fork")
    assert failed["errno"] == 11
    assert "fork" in run.error_text()
    assert not scene.all("root")


@pytest.mark.root
def test_fork_refused_for_lack_of_memory(scene: Scene) -> None:
    # A pid namespace whose init has ended: every fork is ENOMEM though memory is free.
    run = scene.run("root", via=enter(scene, "--dead-namespace"))
    run.ends(code=125)
    assert run.event("failed", reason="fork")["errno"] == 12
    assert not scene.all("root")


def test_children_inherited_through_exec_are_not_ours(scene: Scene) -> None:
    run = scene.run("root [daemon left ignore ]", via=enter(scene, "--child"))
    inherited = scene.member("inherited")
    scene.expect(inherited)
    root = scene.member("root")
    assert run.started["inherited_children"] == 1
    root.tell("exit 9")
    run.ends(code=9)
    assert inherited.alive(), "it belongs to whoever started it"


def test_an_inherited_child_survives_a_stop_and_a_takeover(scene: Scene) -> None:
    run = scene.run("root [daemon left ignore ]", via=enter(scene, "--child"))
    inherited = scene.member("inherited")
    scene.expect(inherited)
    scene.member("root")
    run.keeper.signal(9)
    run.wait()
    run.nobody_left()
    assert inherited.alive()


def test_a_low_limit_of_descriptors_is_no_obstacle(scene: Scene) -> None:
    run = scene.run("root exit=4", via=enter(scene, "--limit", "NOFILE=40"))
    run.ends(code=4)


def test_many_runs_at_once_from_one_owner(scene: Scene) -> None:
    runs = [scene.run("root [daemon left ignore ]", record=False) for _ in range(12)]
    scene.until(lambda: len(scene.all("root")) == 12, "all are there")
    for run in runs:
        run.signal(SIGTERM)
    for run in runs:
        assert run.wait().signal == SIGTERM
    runs[0].nobody_left()


def test_usable_alone_without_any_option(tmp_path: Path) -> None:
    done = subprocess.run(
        [supervisor_binary(), "--", "sh", "-c", "cat; exit 3"],
        input=b"in and out", capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in and out", b"")
