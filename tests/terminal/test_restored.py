"""What the shell finds when a run is over: modes, flags and foreground group as it gave them."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from harness.member import Process
from harness.programs import program
from harness.scene import Scene
from harness.shell import Shell

from .conftest import Start
from .test_job_control import started


def kill(scene: Scene, identity: dict[str, Any], name: str) -> None:
    """SIGKILL to a process that `started` names, and its end."""
    process = Process(scene.hub, identity["pid"], identity["start"], name)
    process.signal(signal.SIGKILL)
    process.wait_gone()


def test_a_root_that_leaves_it_raw(any_shell: Shell) -> None:
    before = any_shell.modes()
    any_shell.command(f"$LASTOUT -- {program('raw_tty')} exit")
    assert any_shell.value("$?") == "5"
    assert any_shell.modes() == before


def test_a_root_that_leaves_it_non_blocking(shell: Shell, scene: Scene) -> None:
    """Asked on the same line: a shell that reads and finds its input so puts it right itself."""
    flags = "grep flags /proc/self/fdinfo/0"
    shell.command(f"{flags} > before; $LASTOUT -- {program('raw_tty')} exit; {flags} > after")
    assert (scene.directory / "after").read_text() == (scene.directory / "before").read_text()


@pytest.mark.parametrize("who", ["root", "keeper"])
def test_killed_while_it_is_raw(who: str, any_shell: Shell, scene: Scene) -> None:
    before = any_shell.modes()
    any_shell.line(f"$LASTOUT -- {program('raw_tty')}")
    any_shell.wait("it is raw")
    kill(scene, started(scene)[who], who)
    any_shell.prompt()
    assert any_shell.value("$?") == str(128 + signal.SIGKILL)
    assert any_shell.modes() == before


def test_stopped_by_a_signal_while_it_is_raw(shell: Shell, scene: Scene) -> None:
    before = shell.modes()
    shell.line(f"$LASTOUT -- {program('raw_tty')}")
    shell.wait("it is raw")
    os.kill(started(scene)["front"]["pid"], signal.SIGTERM)
    shell.prompt()
    assert shell.modes() == before


def test_front_killed_while_it_is_raw(start: Start, scene: Scene) -> None:
    """bash puts back what it knows itself; the keeper ends the run, and touches nothing of it."""
    shell = start("bash", "pty")
    before = shell.modes()
    shell.line(f"$LASTOUT -- {program('raw_tty')}")
    shell.wait("it is raw")
    line = started(scene)
    root = Process(scene.hub, line["root"]["pid"], line["root"]["start"], "root")
    kill(scene, line["front"], "front")
    shell.prompt()
    root.wait_gone()
    # Flags are no part of what bash knows: only the modes are compared.
    assert shell.modes().rpartition("flags")[0] == before.rpartition("flags")[0]


def test_a_run_that_ends_in_the_background_touches_nothing(start: Start, scene: Scene) -> None:
    shell = start("dash", "pty")
    shell.line(f"$LASTOUT -- {program('actor')} root note=INT")
    root = scene.member("root")
    shell.key("C-z")
    shell.prompt()
    shell.command("bg; stty -echo")
    changed = shell.modes()
    root.tell("exit 0")
    root.wait_gone()
    shell.command("wait")
    assert shell.modes() == changed
    shell.command("stty echo")


def test_nothing_can_be_executed(shell: Shell) -> None:
    before = shell.modes()
    shell.command("$LASTOUT -- /no/such/program")
    assert shell.value("$?") == "127"
    assert shell.modes() == before


def test_a_root_whose_job_has_the_terminal_is_killed(start: Start, scene: Scene) -> None:
    """The foreground group at the end is neither ours nor the root's, but nobody is in it."""
    shell = start("dash", "pty")
    before = shell.modes()
    shell.command("$LASTOUT -- env PS1='ready> ' bash --norc --noprofile -i")
    root = started(scene)["root"]
    shell.line(f"{program('raw_tty')}")
    shell.wait("it is raw")
    kill(scene, root, "root")
    shell.prompt()
    assert shell.modes() == before


def test_leftovers_do_not_keep_the_terminal(shell: Shell, scene: Scene) -> None:
    """The root has ended, its leftovers get their grace: the keys are for us now."""
    shell.line(f"$LASTOUT --leftovers wait -- {program('actor')} root [daemon late ignore ] exit=0")
    late = scene.member("late")
    scene.member("root").wait_gone()
    scene.hub.look(lambda: foreground(shell) == started(scene)["front"]["pid"], "ours again")
    shell.key("C-c")
    scene.until(lambda: late.gone, "the stop that it asked for")
    shell.prompt()
    assert shell.value("$?") == "0"  # the root had ended before


def foreground(shell: Shell) -> int:
    with open(f"/proc/{shell.pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[5])
