"""Interactive shells for these tests, each on a terminal of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from harness.pauses import stillness
from harness.programs import supervisor_binary
from harness.scene import SHORT_GRACES, Scene
from harness.shell import PROMPT, PtyShell, Shell, TmuxShell

SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "dash": ["dash", "-i"]}

Start = Callable[[str, str], Shell]


@pytest.fixture
def start(scene: Scene) -> Iterator[Start]:
    """Starts a shell by its name, on a `pty` or in `tmux`, and waits for its prompt."""
    started: list[Shell] = []
    stillness.ask()  # a shell takes whoever is stopped for a job that its user has stopped

    def begin(name: str, where: str) -> Shell:
        for needed in {name, "tmux" if where == "tmux" else name}:
            if shutil.which(needed) is None:
                pytest.skip(f"{needed} is not installed")
        kind = TmuxShell if where == "tmux" else PtyShell
        env = scene.environment(
            {"PS1": PROMPT, "TERM": "xterm", "LASTOUT": lastout(), "HISTFILE": "", "ENV": ""}
        )
        shell = kind(scene.hub, scene.directory, SHELLS[name], env)
        started.append(shell)
        shell.greet()
        return shell

    yield begin
    for shell in started:
        shell.close()
    # What writes the last lines may end a moment after the run, whose end is all the shell knows.
    scene.hub.look(lambda: not scene.strangers(), "nobody is left of the shells' runs")


@pytest.fixture(params=["bash", "dash"])
def shell(request: pytest.FixtureRequest, start: Start) -> Shell:
    """An interactive shell on a PTY."""
    return start(request.param, "pty")


@pytest.fixture(params=[("bash", "pty"), ("dash", "pty"), ("bash", "tmux"), ("dash", "tmux")])
def any_shell(request: pytest.FixtureRequest, start: Start) -> Shell:
    """An interactive shell on a PTY, and in tmux."""
    name, where = request.param
    return start(name, where)


def lastout() -> str:
    """What a user types before `--` and his command; the record goes to `record` where he is."""
    graces = zip(
        ("--stdin-grace", "--term-grace", "--reap-bound"), map(str, SHORT_GRACES), strict=True
    )
    words = [word for pair in graces for word in pair]
    return " ".join([supervisor_binary(), "--stdin-end ignore --record record", *words])
