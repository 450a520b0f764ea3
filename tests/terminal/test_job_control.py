"""A run in the foreground of an interactive shell: its keys, its stops, and who has the terminal."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from harness.freezer import freezer
from harness.identity import read_stat
from harness.programs import program
from harness.record import RecordFile
from harness.scene import Scene
from harness.shell import PtyShell, Shell

from .conftest import Start


def started(scene: Scene) -> dict[str, Any]:
    """The line `started` of the run whose record is in the shell's directory."""
    record = RecordFile(scene.directory / "record", scene.hub)
    try:
        scene.until(lambda: record.refresh() or record.events, "the run starts")
        return record.events[0]
    finally:
        record.close()


def noted(name: str) -> str:
    """What an actor notes of a signal that the terminal made."""
    return f"signal {int(signal.Signals['SIG' + name])} from 0"


def test_start_stop_continue_interrupt_exit(any_shell: Shell, scene: Scene) -> None:
    shell = any_shell
    before = shell.modes()
    shell.line("$LASTOUT -- cat")
    assert started(scene)["terminal"] == 2
    shell.line("one")
    shell.wait("one\r\none")
    shell.key("C-z")
    shell.prompt()
    assert shell.value("$?") == str(128 + signal.SIGTSTP)
    assert shell.modes() == before
    shell.fg()
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-c")
    shell.prompt()
    assert shell.value("$?") == str(128 + signal.SIGINT)
    assert shell.modes() == before
    shell.command("$LASTOUT -- sh -c 'exit 7'")
    assert shell.value("$?") == "7"
    assert shell.modes() == before
    assert shell.value("$(jobs)") == ""


def test_each_key_arrives_exactly_once(shell: Shell, scene: Scene) -> None:
    shell.line(f"$LASTOUT -- {program('actor')} root note=INT,QUIT [ child note=INT,QUIT ]")
    root, child = scene.member("root"), scene.member("child")
    for key, name in (("C-c", noted("INT")), ("C-\\", noted("QUIT")), ("C-c", noted("INT"))):
        root.notes.clear()
        child.notes.clear()
        shell.key(key)
        scene.until(lambda: root.notes and child.notes, f"both hear of {key}")
        for member in (root, child):
            assert member.alive()
            assert member.notes == [name, "pong"]
    root.tell("exit 3")
    shell.prompt()
    assert shell.value("$?") == "3"


def test_a_run_that_reads_in_the_background_stops_as_any_job(shell: Shell, scene: Scene) -> None:
    shell.line("$LASTOUT -- sh -c 'while read line; do echo got $line; done'")
    started(scene)
    shell.line("one")
    shell.wait("got one")
    shell.key("C-z")
    shell.prompt()
    shell.command("bg")
    scene.hub.look(lambda: stopped(scene), "the run is stopped again")
    shell.fg()
    shell.line("two")
    shell.wait("got two")
    shell.key("C-d")
    shell.prompt()
    assert shell.value("$?") == "0"


def runs(scene: Scene) -> int:
    """How many runs have started on the record."""
    record = scene.directory / "record"
    return record.read_text().count('"event":"started"') if record.exists() else 0


def stopped(scene: Scene) -> bool:
    """Root and front are stopped: the shell has seen it, or will."""
    line = started(scene)
    stats = [read_stat(line[who]["pid"]) for who in ("root", "front")]
    return all(stat is not None and stat.state == "T" for stat in stats)


def test_brought_to_the_foreground_while_it_runs(shell: Shell, scene: Scene) -> None:
    """bash sends no SIGCONT to a job that runs; the terminal must reach the root all the same."""
    shell.line(f"$LASTOUT -- {program('actor')} root note=INT")
    root = scene.member("root")
    shell.key("C-z")
    shell.prompt()
    shell.command("bg")
    assert root.alive()  # it runs
    shell.fg()
    shell.key("C-c")
    # From the terminal, or from the keeper when it was pressed before the root had the terminal.
    scene.until(lambda: any(n.startswith("signal 2 ") for n in root.notes), "the key arrives")
    assert root.alive()
    assert len([note for note in root.notes if note.startswith("signal 2 ")]) == 1
    root.tell("exit 0")
    shell.prompt()


def test_started_in_the_background(shell: Shell, scene: Scene) -> None:
    shell.command("$LASTOUT -- cat &")
    assert started(scene)["terminal"] == 3
    scene.hub.look(lambda: stopped(scene), "the run is stopped by its read")
    shell.fg()
    shell.line("one")
    shell.wait("one\r\none")
    shell.key("C-z")
    shell.prompt()
    shell.fg()
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-d")
    shell.prompt()
    assert shell.value("$?") == "0"


def test_a_change_of_size_arrives(start: Start, scene: Scene) -> None:
    shell = start("dash", "pty")
    assert isinstance(shell, PtyShell)
    shell.line(f"$LASTOUT -- {program('actor')} root note=WINCH")
    root = scene.member("root")
    shell.resize(40, 120)
    scene.until(lambda: noted("WINCH") in root.notes, "the new size is heard of")
    assert root.alive()
    assert root.notes.count(noted("WINCH")) == 1
    root.tell("exit 0")
    shell.prompt()


def test_a_stopped_run_is_stopped_for_good_by_its_shells_kill(shell: Shell, scene: Scene) -> None:
    shell.line(f"$LASTOUT -- {program('actor')} root [daemon escapee ignore ]")
    scene.member("root")
    escapee = scene.member("escapee")
    shell.key("C-z")
    shell.prompt()
    shell.command("kill %1; kill -CONT %1")  # dash leaves the second to its user
    scene.until(lambda: escapee.gone, "the escapee is ended")
    shell.command("wait")


def terminal_group(pid: int) -> int:
    """Which group has the terminal of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[5])


def heard(pid: int) -> bool:
    """Whether a process has taken all its signals and waits for what comes next."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    pending = int(status["ShdPnd"], 16) | int(status["SigPnd"], 16)
    return not pending and status["State"].split()[0] == "S"


def test_continued_before_the_front_stood_still(shell: Shell, scene: Scene) -> None:
    """Both supervisors are behind: the front hears of a stop that is over, and does not follow."""
    shell.line(f"$LASTOUT -- {program('actor')} root note=CONT")
    root = scene.member("root")
    begun = started(scene)
    front, keeper = begun["front"]["pid"], begun["keeper"]["pid"]
    with freezer() as fronts, freezer() as keepers:
        fronts.freeze(front)
        shell.key("C-z")
        root.wait_state("T")
        scene.hub.look(lambda: heard(keeper), "the keeper has seen it")
        keepers.freeze(keeper)
        root.signal(signal.SIGCONT)
        scene.until(lambda: root.notes, "the root runs again")
        fronts.thaw()
        scene.hub.look(lambda: terminal_group(front) == front, "the front has looked at the stop")
        scene.hub.look(lambda: read_stat(front).state in "ST", "the front has done what it does")
        keepers.thaw()
    root.tell("exit 3")
    shell.prompt()
    assert shell.value("$?") == "3"
    assert shell.value("$(jobs)") == ""


def test_timeout_of_a_stopped_run(shell: Shell, scene: Scene) -> None:
    """The keeper ends a run whose front the shell has stopped, and wakes the front to say so."""
    shell.line(f"$LASTOUT --timeout 0.7 -- {program('actor')} root ignore")
    root = scene.member("root")
    shell.key("C-z")
    shell.prompt()
    scene.until(lambda: root.gone, "the run is over")
    shell.line("wait; fg")
    shell.prompt()


def test_a_run_in_a_run(shell: Shell, scene: Scene) -> None:
    before = shell.modes()
    shell.line("$LASTOUT -- $LASTOUT -- cat")
    scene.hub.look(lambda: runs(scene) == 2, "both runs have started")
    shell.line("one")
    shell.wait("one\r\none")
    shell.key("C-z")
    shell.prompt()
    assert shell.modes() == before
    shell.fg()
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-c")
    shell.prompt()
    assert shell.value("$?") == str(128 + signal.SIGINT)
    assert shell.modes() == before


@pytest.mark.parametrize("inner", ["bash --norc --noprofile -i", "dash -i"])
def test_a_shell_as_the_root(inner: str, start: Start, scene: Scene) -> None:
    """It makes foreground groups of its own, which are not ours to judge."""
    shell = start("dash", "pty")
    before = shell.modes()
    shell.command(f"$LASTOUT -- env PS1='ready> ' {inner}")
    root = started(scene)["root"]["pid"]
    shell.line("cat")
    shell.handed_over(root)
    shell.line("one")
    shell.wait("one\r\none")
    shell.key("C-z")
    shell.prompt()
    shell.line("fg")
    shell.handed_over(root)
    shell.line("two")
    shell.wait("two\r\ntwo")
    shell.key("C-c")
    shell.prompt()
    shell.command("exit 4")
    assert shell.value("$?") == "4"
    assert shell.modes() == before
