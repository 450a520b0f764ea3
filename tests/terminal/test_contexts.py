"""Where a terminal is shared: scripts, make, pagers, other terminals, and full-screen programs."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from harness.identity import read_stat
from harness.member import Process
from harness.programs import program
from harness.scene import Scene
from harness.shell import Shell

from .conftest import Start
from .test_job_control import noted, runs, started

LINES = 5000


def needs(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


def test_a_pipeline_into_a_pager(any_shell: Shell, scene: Scene) -> None:
    needs("less")
    before = any_shell.modes()
    any_shell.line(f"$LASTOUT -- seq {LINES} | less")
    any_shell.wait("\n20")
    assert started(scene)["terminal"] == 3
    any_shell.key("C-z")
    any_shell.prompt()
    any_shell.fg()
    any_shell.wait("\n20")  # the page once more
    any_shell.type("G")
    any_shell.wait(f"\n{LINES}")
    any_shell.type("q")
    any_shell.prompt()
    assert any_shell.modes() == before


def test_a_pager_at_the_end_of_a_pipeline(shell: Shell, scene: Scene) -> None:
    """Its stdin is no terminal, its keys come from /dev/tty."""
    needs("less")
    before = shell.modes()
    shell.line(f"seq {LINES} | $LASTOUT -- less")
    shell.wait("\n20")
    assert started(scene)["terminal"] == 3
    shell.type("q")
    shell.prompt()
    assert shell.modes() == before


@pytest.mark.parametrize(
    "how", ["$LASTOUT -- {}", "echo x | $LASTOUT -- {}", "$LASTOUT -- {} | cat"]
)
def test_dev_tty_is_the_terminal(how: str, shell: Shell) -> None:
    ask = "sh -c 'stty size < /dev/tty > size'"
    shell.command(how.format(ask))
    assert shell.value("$(cat size)") == "30 100"


def test_make(shell: Shell, scene: Scene) -> None:
    needs("make")
    (scene.directory / "Makefile").write_text(
        f"all:\n\t@$$LASTOUT -- {program('actor')} root note=INT term=exit:0\n"
    )
    before = shell.modes().rpartition("flags")[0]  # make itself sets O_APPEND
    shell.line("make")
    root = scene.member("root")
    assert started(scene)["terminal"] == 3
    shell.key("C-z")
    shell.prompt()
    shell.fg()
    shell.key("C-c")
    scene.until(lambda: noted("INT") in root.notes, "the key arrives")
    assert root.alive()
    assert root.notes.count(noted("INT")) == 1
    root.tell("exit 0")
    shell.prompt()
    assert shell.modes().rpartition("flags")[0] == before


def test_a_script_that_is_no_job_control_shell(shell: Shell, scene: Scene) -> None:
    (scene.directory / "script.sh").write_text(
        f"$LASTOUT -- {program('raw_tty')} exit; echo st=$?\n"
    )
    shell.line("sh script.sh; stty sane")
    shell.wait("st=5")
    shell.prompt()
    assert started(scene)["terminal"] == 3


@pytest.mark.parametrize(
    ("command", "case"),
    [
        pytest.param("exec $LASTOUT -- cat", 2, id="its child"),
        # The shell that script starts stays: it leads the terminal's group, we are in it.
        pytest.param("$LASTOUT -- cat; exit $?", 3, id="below a shell"),
    ],
)
def test_under_script(any_shell: Shell, scene: Scene, command: str, case: int) -> None:
    """Nobody could undo a stop there: it does not hold."""
    needs("script")
    before = any_shell.modes()
    any_shell.line(f"script -qec '{command}' /dev/null")
    scene.hub.look(lambda: runs(scene) == 1, "the run starts")
    assert started(scene)["terminal"] == case
    any_shell.line("one")
    any_shell.wait("one\r\none")
    any_shell.key("C-z")
    any_shell.line("two")
    any_shell.wait("two\r\ntwo")
    any_shell.key("C-c")
    any_shell.prompt()
    assert any_shell.value("$?") == str(128 + signal.SIGINT)
    assert any_shell.modes() == before


def test_make_under_script(shell: Shell, scene: Scene) -> None:
    """The whole group would stand still for ever: only the keeper makes the kernel stop it."""
    needs("make")
    needs("script")
    (scene.directory / "Makefile").write_text("all:\n\t@$$LASTOUT -- cat\n")
    shell.line('script -qec "make" /dev/null')
    scene.hub.look(lambda: runs(scene) == 1, "the run starts")
    shell.key("C-z")
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-d")
    shell.prompt()
    assert shell.value("$?") == "0"


def test_a_shell_that_cannot_stop_jobs(start: Start, scene: Scene) -> None:
    shell = start("dash", "pty")
    shell.line("exec $LASTOUT -- cat")
    scene.hub.look(lambda: runs(scene) == 1, "the run starts")
    shell.line("one")
    shell.wait("one\r\none")
    shell.key("C-z")
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-d")
    scene.hub.look(lambda: ended(shell.pid), "the run that was the shell ends")


def ended(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is None or stat.state == "Z"


def test_a_full_screen_program(any_shell: Shell, scene: Scene) -> None:
    needs("vim")
    before = any_shell.modes()
    any_shell.line("$LASTOUT -- vim -u NONE -i NONE -n some-text")
    any_shell.wait("some-text")
    any_shell.wait("some-text")
    any_shell.type("ihello")
    any_shell.wait("hello")
    any_shell.key("Escape")
    any_shell.key("C-z")
    any_shell.prompt()
    assert any_shell.modes() == before
    any_shell.fg()
    any_shell.wait("hello")
    any_shell.type(":wq\r")
    any_shell.prompt()
    assert any_shell.value("$?") == "0"
    assert (scene.directory / "some-text").read_text() == "hello\n"
    assert any_shell.modes() == before


def test_a_full_screen_program_is_killed(any_shell: Shell, scene: Scene) -> None:
    needs("vim")
    before = any_shell.modes()
    any_shell.line("$LASTOUT -- vim -u NONE -i NONE -n some-text")
    any_shell.wait("some-text")
    any_shell.wait("some-text")
    root = started(scene)["root"]
    process = Process(scene.hub, root["pid"], root["start"], "root")
    process.signal(signal.SIGKILL)
    any_shell.prompt()
    assert any_shell.value("$?") == str(128 + signal.SIGKILL)
    assert any_shell.modes() == before


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent(agent: str, start: Start, scene: Scene) -> None:
    """Its first screen, Ctrl-Z where it takes it, and SIGKILL: the modes are the shell's."""
    where = Path(os.environ.get("LASTOUT_TEST_AGENTS") or "build/agents").resolve()
    path = where / "node_modules" / ".bin" / agent
    if not path.exists():
        pytest.skip(f"{agent} is not installed below {where}")
    shell = start("dash", "tmux")
    before = shell.modes()
    home = scene.directory / "home"
    home.mkdir()
    shell.line(f"HOME={home} CODEX_HOME={home} $LASTOUT -- {path}")
    line = started(scene)
    shell.handed_over()
    root = line["root"]
    scene.hub.look(lambda: b"\x1b[?" in shell.seen, f"{agent} takes the screen")
    scene.hub.look(lambda: raw(line["root"]["pid"]), f"{agent} makes its terminal raw")
    process = Process(scene.hub, root["pid"], root["start"], "root")
    process.signal(signal.SIGKILL)
    shell.prompt()
    assert shell.modes() == before


def raw(pid: int) -> bool:
    """Whether the terminal of this process echoes no more."""
    import termios

    try:
        fd = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not termios.tcgetattr(fd)[3] & termios.ECHO
    finally:
        os.close(fd)
