"""The command itself: what it lists, what it costs, and `lastout demo`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lastout

LASTOUT = [sys.executable, "-m", "lastout"]


def call(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LASTOUT, *words], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def test_help_lists_the_commands_with_an_example() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert "lastout run -- codex app-server" in done.stdout
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert {"run", "demo"} <= listed
    assert "main" not in listed
    assert "commands" not in listed


def test_no_command_shows_the_help() -> None:
    done = call()
    assert "Usage: lastout" in done.stdout + done.stderr


def test_the_version() -> None:
    done = call("--version")
    assert (done.returncode, done.stdout) == (0, f"lastout {lastout.__version__}\n")


@pytest.mark.parametrize("word", ["nonsense", "main", "commands", "_demo_scene", "../run"])
def test_an_unknown_command_is_a_usage_error(word: str) -> None:
    done = call(word)
    assert done.returncode == 2
    assert f"No such command '{word}'" in done.stderr


def test_a_file_with_a_command_is_a_command(tmp_path: Path) -> None:
    """Nobody edits a table: the file is enough."""
    program = (
        "import sys, lastout.cli\n"
        "lastout.cli.__path__.append(sys.argv.pop(1))\n"
        "from lastout.cli.main import main\n"
        "main()\n"
    )
    (tmp_path / "greet_me.py").write_text(
        "import click\n@click.command()\ndef command(): click.echo('hello')\n"
    )
    (tmp_path / "needs.py").write_text("import a_package_that_is_missing\n")
    argv = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run([*argv, "greet-me"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    missing = subprocess.run([*argv, "needs"], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "a_package_that_is_missing" in missing.stderr
    listed = subprocess.run([*argv, "--help"], capture_output=True, text=True)
    assert listed.returncode == 0, "one command's missing package spoils no other"
    assert "greet-me" in listed.stdout
    assert "needs the Python package" in listed.stdout


def test_importing_lastout_imports_next_to_nothing() -> None:
    program = (
        "import sys, lastout\n"
        "assert not {'anyio', 'msgspec', 'click'} & sys.modules.keys()\n"
        "lastout.Graces\n"
        "assert 'anyio' not in sys.modules\n"
        "lastout.open_process\n"
        "assert 'anyio' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_run_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """What costs more than a millisecond; the time itself is measured by the benchmarks."""
    program = (
        "import sys\nfrom lastout.cli.main import main\nfrom lastout.cli.run import plan\n"
        f"plan(['--state', {str(tmp_path)!r}, '--', 'codex', 'app-server'])\n"
        "print(*sys.modules)\n"
    )
    argv = [sys.executable, "-I", "-S", "-c", _path() + program]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    costly = {"anyio", "argparse", "asyncio", "click", "dataclasses", "enum", "importlib.resources"}
    costly |= {"inspect", "json", "msgspec", "pathlib", "re", "subprocess", "tempfile", "typing"}
    assert not costly & loaded


def _path() -> str:
    where = os.path.dirname(os.path.dirname(lastout.__file__))
    return f"import sys; sys.path.insert(0, {where!r})\n"


def test_every_public_name_is_there() -> None:
    for name in lastout.__all__:
        assert getattr(lastout, name) is not None
        assert name in dir(lastout)
    with pytest.raises(AttributeError, match="nonsense"):
        lastout.nonsense  # noqa: B018


def test_the_demonstration_counts_honestly(tmp_path: Path) -> None:
    done = call("demo", "--json", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    roles = ["agent", "daemon", "forker", "session", "tool", "writer"]
    assert sorted(told["without"]["started"]) == roles
    assert sorted(told["without"]["alive"]) == roles
    assert told["without"]["lines_after"] > 0
    assert sorted(told["with"]["started"]) == roles
    assert told["with"]["alive"] == []
    assert any("its owner died" in sentence for sentence in told["story"])
    assert list(tmp_path.iterdir()) == [], "it cleans up after itself"


def test_the_demonstration_tells_a_story(tmp_path: Path) -> None:
    done = call("demo", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0
    assert "6 processes started, 6 alive" in done.stdout
    assert "6 processes started, 0 alive" in done.stdout
    assert "lastout run -- CMD" in done.stdout
    assert "\x1b[" not in done.stdout, "no colours into a file"
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_the_demonstration_interrupted_leaves_nothing(tmp_path: Path) -> None:
    """The autouse check of every test sees what it started, wherever that moved to."""
    demo = subprocess.Popen(
        [*LASTOUT, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if b"Without lastout" in line:
            break
    demo.send_signal(signal.SIGTERM)
    demo.communicate()
    assert demo.returncode == 143
    assert list(tmp_path.iterdir()) == []
