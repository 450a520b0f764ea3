"""`lastout completion` and `lastout logs`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lastout
from lastout import subprocess as ours
from lastout.evidence.settled import settled

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
COMMAND = [sys.executable, "-m", "lastout"]


def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], env={**ENV, **env}, capture_output=True, text=True, timeout=60
    )


def complete(line: str) -> list[str]:
    """What the bash script would offer for the last word of a line."""
    words = line.split(" ")
    done = call(_LASTOUT_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert done.returncode == 0, done.stderr
    return [entry.partition(",")[2] for entry in done.stdout.splitlines()]


def test_completing_a_line_runs_nothing_of_it(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    complete(f"lastout run --no-record -- touch {touched} ")
    assert not touched.exists()


def test_commands_options_and_runs_are_completed(tmp_path: Path) -> None:
    assert "doctor" in complete("lastout do")
    assert "--term-grace" in complete("lastout run --term")
    with lastout.Popen(["true"], run="a-run-of-mine", state=tmp_path):
        pass
    assert complete(f"lastout logs --state {tmp_path} a-r") == ["a-run-of-mine"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    script = call("completion", shell)
    assert script.returncode == 0
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}, to read the script")
    subprocess.run([shell, "-n"], input=script.stdout, text=True, check=True)


def test_logs_prints_the_record_byte_for_byte(tmp_path: Path) -> None:
    with lastout.Popen(["sh", "-c", "exit 3"], state=tmp_path) as process:
        pass
    assert process.record is not None
    settled(process.record)
    whole = Path(process.record).read_text()
    assert call("logs", "--state", str(tmp_path), process.run).stdout == whole
    last = call("logs", "--state", str(tmp_path), "-n", "1", process.run[:-2]).stdout
    assert json.loads(last)["event"] == "tree-gone"
    assert call("logs", "--path", "--state", str(tmp_path), "last").stdout == process.record + "\n"
    assert call("logs", "--state", str(tmp_path), "nobody").returncode == 1


def test_following_ends_with_the_run(tmp_path: Path) -> None:
    with lastout.Popen(["cat"], stdin=-1, state=tmp_path) as process:
        command = [*COMMAND, "logs", "--follow", "--state", str(tmp_path), process.run]
        with subprocess.Popen(command, env=ENV, stdout=-1) as following:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["event"] == "started"
            process.communicate()
            rest = [json.loads(line)["event"] for line in following.stdout]
            assert rest[-1] == "tree-gone"
            assert following.wait(timeout=30) == 0


def test_the_drop_in_module_is_found_by_its_name() -> None:
    assert ours.Popen is lastout.Popen
