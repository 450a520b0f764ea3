"""`lastout run`: the supervisor takes this process over; what it decides itself is little."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lastout import identity, supervisor
from lastout.evidence import events
from lastout.evidence.settled import settled
from lastout.identity import Alive
from lastout.testing import RudeAgent

LASTOUT = [sys.executable, "-m", "lastout"]


def run(*words: str | os.PathLike[str], **options: object) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    argv = [*LASTOUT, "run", *words]
    return subprocess.run(argv, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def records(state: Path) -> list[Path]:
    return sorted(state.glob("runs/*/*.jsonl"))


def test_stdio_and_status_are_the_command_s(state: Path) -> None:
    done = run("--state", state, "--", "sh", "-c", "cat; echo err >&2; exit 7", input="hello")
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello", "err\n")


def test_the_end_of_stdin_stops_nothing(state: Path) -> None:
    script = "sort; sleep 0.3; echo done"
    done = run("--state", state, "--budget", "instant", "--", "sh", "-c", script, input="b\na\n")
    assert (done.returncode, done.stdout) == (0, "a\nb\ndone\n")


def test_it_can_stop_at_the_end_of_stdin(state: Path) -> None:
    for words in (["--stdin-end", "stop"], ["--stdin-end=stop"]):
        done = run("--no-record", "--stdin-grace", "0", *words, "--", "sleep", "60", input="")
        assert done.returncode == -signal.SIGTERM


def test_no_python_stays(state: Path) -> None:
    """The process that was started becomes the front: same pid, other program."""
    process = subprocess.Popen(
        [*LASTOUT, "run", "--state", state, "--", "sh", "-c", "echo up; read x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"up\n"
        assert os.readlink(f"/proc/{process.pid}/exe") == os.path.realpath(supervisor.binary())
    finally:
        process.stdin.write(b"\n")
        process.stdin.close()
        process.stdout.close()
        assert process.wait() == 0
    started = settled(records(state)[0]).events[0]
    assert isinstance(started, events.Started)
    assert started.front.pid == process.pid
    assert started.owner is not None
    assert started.owner.pid == os.getpid()


def test_its_record_is_where_the_state_is(state: Path) -> None:
    assert run("--state", state, "--run", "my-run", "--", "sh", "-c", "exit 3").returncode == 3
    (path,) = records(state)
    assert path == state / "runs" / "my-run" / "my-run.jsonl"
    contents = settled(path)
    assert isinstance(contents.final, events.TreeGone)
    assert contents.events[0].run == "my-run"


def test_its_record_can_be_elsewhere_or_nowhere(state: Path, tmp_path: Path) -> None:
    done = run("--record", "mine.jsonl", "--", "true", cwd=tmp_path)
    assert done.returncode == 0
    assert settled(tmp_path / "mine.jsonl").final is not None
    assert run("--no-record", "--state", state, "--", "true").returncode == 0
    assert not state.exists()


def test_json_tells_run_record_and_pid_before_the_command_starts(state: Path) -> None:
    done = run("--json", "--state", state, "--", "sh", "-c", "echo later >&2; echo $PPID")
    first, later = done.stderr.splitlines()
    told = json.loads(first)
    assert later == "later"
    assert Path(told["record"]) == records(state)[0]
    assert told["run"] == Path(told["record"]).stem
    started = settled(told["record"]).events[0]
    assert isinstance(started, events.Started)
    assert told["pid"] == started.front.pid


def test_the_dashes_can_be_left_out() -> None:
    assert run("--no-record", "sh", "-c", "exit 4").returncode == 4
    assert run("--no-record", "--term-grace", "1", "sh", "-c", "exit 4").returncode == 4
    assert run("--no-record", "--", "sh", "--", "-c", "exit 4").returncode != 4


def test_the_command_s_own_options_are_its_own(state: Path) -> None:
    done = run("--no-record", "--", "echo", "--json", "--", "-h")
    assert done.stdout == "--json -- -h\n"


def test_inherited_descriptors_are_passed_on() -> None:
    read_end, write_end = os.pipe()
    try:
        program = f"import os; os.write({write_end}, b'hello')"
        done = run("--no-record", "--", sys.executable, "-c", program, pass_fds=[write_end])
        assert (done.returncode, os.read(read_end, 100)) == (0, b"hello")
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_signal_stops_everything_and_is_how_it_ends(state: Path, tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ttl=30)
    words = ["--state", str(state), "--term-grace", "0.4", "--", *agent.argv]
    process = subprocess.Popen(
        [*LASTOUT, "run", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    assert agent.survivors() == []
    process.stdin.close()
    process.stdout.close()


def test_an_interrupt_before_the_exec_is_an_interrupt(tmp_path: Path) -> None:
    """No traceback, and death by SIGINT, as a shell expects it."""
    program = (
        "import sys; sys.argv = ['lastout', 'run', '--', 'true']\n"
        "from lastout.cli import run, main\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "run.plan = interrupted\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_what_looks_like_a_secret_is_masked(state: Path) -> None:
    run("--state", state, "--mask", "1", "--", "true", "mine", "--api-key", "sk-123", "plain")
    started = settled(records(state)[0]).events[0]
    assert isinstance(started, events.Started)
    assert started.argv == ("true", "***", "--api-key", "***", "plain")


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_has_examples_and_every_option(word: str) -> None:
    done = run(word)
    assert done.returncode == 0
    assert "lastout run --budget mcp" in done.stdout
    native = subprocess.run(
        [supervisor.binary(), "--help"], capture_output=True, text=True, check=True
    )
    # How it is run, and what only a program that starts it can use.
    others = {"--help", "--version", "--control", "--lock", "--epoch"}
    others |= {"--observe", "--observe-bound"}
    options = set(re.findall(r"--[a-z0-9-]+", native.stdout)) - others
    assert options <= set(re.findall(r"--[a-z0-9-]+", done.stdout))


BAD = [
    ([], "there is no command"),
    (["--"], "there is no command"),
    (["--budget", "mcp"], "there is no command"),
    (["--budget"], "--budget needs a value"),
    (["--budget", "fast", "--", "true"], "fast"),
    (["--term-grace", "31", "--", "true"], "--term-grace"),
    (["--nonsense", "3", "--", "true"], "--nonsense"),
    (["--run", "a/b", "--", "true"], "--run"),
    (["--record", "", "--", "true"], "--record"),
    (["--record=", "--", "true"], "--record"),
    (["--record", "/tmp/x", "--no-record", "--", "true"], "exclude"),
    (["--owner", "me", "--", "true"], "--owner"),
    (["--json", "--help"], "stands alone"),
    (["--state", "/dev/null/x", "--", "true"], "/dev/null"),
    (["--keep-fd", "77", "--", "true"], "77"),
]


@pytest.mark.parametrize(("words", "said"), BAD)
def test_bad_input_is_one_clear_line_and_125(words: list[str], said: str, state: Path) -> None:
    done = run(*(["--state", str(state)] if "--state" not in words else []), *words)
    assert done.returncode == 125
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert not records(state)


def test_a_command_that_cannot_be_executed(state: Path) -> None:
    assert run("--state", state, "--", "no-such-program").returncode == 127
    assert run("--state", state, "--", "/tmp").returncode == 126
    finals = {type(settled(path).final) for path in records(state)}
    assert finals == {events.Failed}


def test_a_user_without_a_home_is_told_what_to_do() -> None:
    """As in a container that runs as some number."""
    program = (
        "import pwd, sys; sys.argv = ['lastout', 'run', *sys.argv[1:], '--', 'echo', 'ran']\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "from lastout.cli.main import main; main()\n"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 125
    assert "--state DIR" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run([*argv, "--no-record"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_started_by_xargs(state: Path) -> None:
    """stdin is at its end already, and that stops nothing."""
    argv = ["xargs", *LASTOUT, "run", "--state", str(state), "--", "echo"]
    done = subprocess.run(argv, input="a b", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a b\n")


def test_the_record_names_who_ended(state: Path) -> None:
    run("--state", state, "--", "true")
    contents = settled(records(state)[0])
    started = contents.events[0]
    assert isinstance(started, events.Started)
    root = identity.ProcessIdentity(
        started.root.pid, started.root.start, started.root.inode, started.boot_id, started.pidns
    )
    assert identity.still_alive(root) is Alive.NO
