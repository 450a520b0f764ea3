"""Below a shell script, make, script(1) or a pager: the terminal is shared, and a key arrives once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP

import pytest

from harness import Scene, read_stat
from harness.run import Run
from harness.terminal import Terminal

# The kernel sends SIGHUP to an orphaned group of which a member is stopped when another one ends.
pytestmark = pytest.mark.still

CTRL_C, CTRL_BACKSLASH, CTRL_Z = b"\x03", b"\x1c", b"\x1a"

# A script that goes on after a key: it is the leader of the foreground group, the front is not.
# It leads the session, so its end takes unread output along: it ends when that has been read.
PATIENT = ["sh", "-c", 'trap : INT QUIT TSTP; "$@"; echo status=$?; read -r _', "sh"]


@pytest.fixture
def terminal(scene: Scene) -> Iterator[Terminal]:
    made = Terminal(scene.hub)
    yield made
    made.close()


def in_script(scene: Scene, terminal: Terminal, play: str, *options: str, **more: object) -> Run:
    run = scene.run(
        play, *options, stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        via=[*scene.program("enter"), "--tty", "--", *PATIENT], **more,  # type: ignore[arg-type]
    )  # fmt: skip
    scene.member("root")
    terminal.close_slave()
    assert run.started["terminal"] == 3
    return run


def test_without_a_controlling_terminal_the_root_has_a_session_of_its_own(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")
    assert run.started["terminal"] == 1
    stat = read_stat(root.pid)
    assert stat is not None
    assert stat.session == stat.pgid == root.pid
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_the_root_stays_in_the_fronts_group_and_the_keeper_does_not(
    scene: Scene, terminal: Terminal
) -> None:
    run = in_script(scene, terminal, "root")
    root, front, keeper = (read_stat(run.started[w]["pid"]) for w in ("root", "front", "keeper"))
    assert root is not None
    assert front is not None
    assert keeper is not None
    assert root.pgid == front.pgid != front.pid
    assert root.session == front.session
    assert keeper.pgid == keeper.pid
    scene.member("root").tell("exit 0")
    terminal.wait_output(b"status=0")
    terminal.type(b"\n")
    run.ends(code=0)


@pytest.mark.parametrize(
    ("key", "number"), [(CTRL_C, SIGINT), (CTRL_BACKSLASH, SIGQUIT), (CTRL_Z, SIGTSTP)],
    ids=["ctrl-c", "ctrl-backslash", "ctrl-z"],
)  # fmt: skip
def test_a_key_arrives_once_and_is_no_trigger(
    scene: Scene, terminal: Terminal, key: bytes, number: int
) -> None:
    run = in_script(scene, terminal, "root note=INT,QUIT,TSTP,USR1")
    root = scene.member("root")
    terminal.type(key)
    scene.until(lambda: root.arrivals(number), "the key's signal")  # type: ignore[arg-type]
    # Whatever else the key set off in us is through before this one is passed on.
    run.front.signal(10)  # type: ignore[arg-type]
    scene.until(lambda: root.arrivals(10), "USR1")  # type: ignore[arg-type]
    assert root.arrivals(number) == 1  # type: ignore[arg-type]
    assert root.alive()
    assert not run.all("stop")
    root.tell("exit 0")
    terminal.wait_output(b"status=0")
    terminal.type(b"\n")
    run.ends(code=0)


def test_a_root_that_dies_of_the_key_takes_its_leftovers_along(
    scene: Scene, terminal: Terminal
) -> None:
    run = in_script(scene, terminal, "root [daemon left ignore ] [ child ignore ]")
    terminal.type(CTRL_C)
    terminal.wait_output(b"status=130")
    terminal.type(b"\n")
    run.ends(code=0)
    assert run.event("root-exited")["signal"] == "INT"
    assert run.event("leftovers")["count"] == 2


def test_an_interrupt_that_somebody_sent_is_a_trigger(scene: Scene, terminal: Terminal) -> None:
    run = in_script(scene, terminal, "root term=clean:100:0")
    run.front.signal(SIGINT)
    terminal.wait_output(b"status=130")
    terminal.type(b"\n")
    run.ends(code=0)
    assert run.event("stop", trigger="signal", signal="INT")["sender"]["pid"] == os.getpid()
    assert "cleaned" in scene.member("root").notes


def test_the_roots_pid_is_signalled_and_not_the_shared_group(
    scene: Scene, terminal: Terminal
) -> None:
    run = in_script(scene, terminal, "root note=TERM [ child note=TERM ] [daemon left note=TERM ]")
    root, child, left = (scene.member(role) for role in ("root", "child", "left"))
    run.front.signal(SIGTERM)
    # The script is in that group and lives to print this.
    terminal.wait_output(b"status=143")
    terminal.type(b"\n")
    run.ends(code=0)
    assert run.event("signalled", signal="TERM", target="root")["pid"] == root.pid
    assert not run.all("signalled", target="root-group")
    assert [m.arrivals(SIGTERM) for m in (root, child, left)] == [1, 1, 1]


def test_sigkill_in_the_shared_group_hits_nobody_else(scene: Scene, terminal: Terminal) -> None:
    run = in_script(scene, terminal, "root ignore [ child ignore ] [ job setpgid ignore ]")
    run.front.signal(SIGTERM)
    terminal.wait_output(b"status=143")
    terminal.type(b"\n")
    run.ends(code=0)
    assert run.event("root-exited")["signal"] == "KILL"


def test_a_terminal_that_goes_away_ends_everything(scene: Scene, terminal: Terminal) -> None:
    run = in_script(scene, terminal, "root ignore [ job setpgid ignore ] [daemon tool ignore ]")
    run.front, run.keeper  # noqa: B018  (pinned while they live)
    terminal.hang_up()
    run.front.wait_gone()
    run.keeper.wait_gone()
    run.wait()
    run.nobody_left()
    assert run.event("stop")["trigger"] in ("signal", "owner-died", "stdin-ended")


def test_a_raw_terminal_whose_master_closes(scene: Scene, terminal: Terminal) -> None:
    run = scene.run(
        scene.program("pty_raw_hup"), stdin=terminal.slave, stdout=terminal.slave,
        via=[*scene.program("enter"), "--tty", "--", *PATIENT],
    )  # fmt: skip
    terminal.close_slave()
    scene.member("root")
    job, tool = scene.member("job"), scene.member("tool")
    run.front, run.keeper  # noqa: B018
    terminal.hang_up()
    run.front.wait_gone()
    assert job.gone
    assert tool.gone
    run.keeper.wait_gone()
    run.wait()
    run.nobody_left()


def test_a_session_of_its_own_by_option(scene: Scene, terminal: Terminal) -> None:
    run = scene.run(
        "root note=INT", "--new-session",
        stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        via=[*scene.program("enter"), "--tty", "--", *PATIENT],
    )  # fmt: skip
    root = scene.member("root")
    terminal.close_slave()
    stat = read_stat(root.pid)
    assert stat is not None
    assert stat.session == root.pid
    root.tell("exit 0")
    terminal.wait_output(b"status=0")
    terminal.type(b"\n")
    run.ends(code=0)


SCRIPT = ["bash", "-c", 'exec script -qefc "${*@Q}" /dev/null', "bash"]


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1)")
@pytest.mark.parametrize("code", [0, 9])
def test_below_script_the_status_is_mirrored(scene: Scene, code: int) -> None:
    run = scene.run(["sh", "-c", f"tty >/dev/null && echo on a terminal; exit {code}"],
                    "--stdin-end", "ignore", via=SCRIPT)  # fmt: skip
    run.ends(code=code)
    assert "on a terminal" in run.output_text()


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1)")
def test_below_script_that_is_killed(scene: Scene) -> None:
    run = scene.run("root ignore [daemon left ignore ]", "--stdin-end", "ignore", via=SCRIPT)
    scene.member("root")
    run.front, run.keeper  # noqa: B018
    run.process.signal(SIGKILL)
    run.front.wait_gone()
    run.keeper.wait_gone()
    run.wait()
    scene.hub.look(lambda: not scene.strangers(), "nobody left")


def test_below_make_a_key_ends_recipe_and_run(
    scene: Scene, terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "Makefile").write_text("all:\n\t@$(RUN)\n")
    run = scene.run(
        "root [daemon left ignore ]",
        stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        via=[*scene.program("enter"), "--tty", "--", "sh", "-c",
             'trap : INT; RUN="$*" make -s; echo made=$?; read -r _', "sh"],
    )  # fmt: skip
    # A shell that leads the session takes unread output along when it ends: it waits for us.
    # The brackets of a play are no words for the recipe's shell to expand: no such files exist.
    terminal.close_slave()
    scene.member("root")
    run.front, run.keeper  # noqa: B018
    terminal.type(CTRL_C)
    terminal.wait_output(b"made=")
    terminal.type(b"\n")
    run.front.wait_gone()
    run.keeper.wait_gone()
    run.wait()
    run.nobody_left()


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_a_pipeline_into_a_pager(scene: Scene, terminal: Terminal) -> None:
    run = scene.run(
        ["sh", "-c", "seq 100000; echo never read"],
        stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        env={"TERM": "xterm", "LESS": ""},
        via=[*scene.program("enter"), "--tty", "--",
             "sh", "-c", '"$@" | less; echo left; read -r _', "sh"],
    )  # fmt: skip
    terminal.close_slave()
    assert run.started["terminal"] == 3
    terminal.wait_output(b"10")
    run.front, run.keeper  # noqa: B018
    terminal.type(b"q")
    terminal.wait_output(b"left")
    terminal.type(b"\n")
    run.front.wait_gone()
    run.wait()
    run.nobody_left()
    assert run.event("root-exited")["signal"] in ("PIPE", None)


def test_a_pager_inside_the_run(scene: Scene, terminal: Terminal) -> None:
    if shutil.which("less") is None:
        pytest.skip("needs less")
    run = scene.run(
        ["sh", "-c", "seq 5000 | less; exit 4"],
        stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        env={"TERM": "xterm", "LESS": ""},
        via=[*scene.program("enter"), "--tty", "--", *PATIENT],
    )  # fmt: skip
    terminal.close_slave()
    terminal.wait_output(b"10")
    terminal.type(b"q")
    terminal.wait_output(b"status=4")
    terminal.type(b"\n")
    run.ends(code=0)


def test_hangup_of_the_group_alone_is_a_trigger(scene: Scene, terminal: Terminal) -> None:
    run = in_script(scene, terminal, "root ignore=HUP term=clean:50:0")
    run.front.signal(SIGHUP)
    terminal.wait_output(b"status=129")
    terminal.type(b"\n")
    run.ends(code=0)
    assert "cleaned" in scene.member("root").notes
