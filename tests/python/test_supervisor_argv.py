"""`supervisor.command`: the drop-in argv, and what it refuses before anything starts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastout import identity, supervisor
from lastout.errors import SupervisorMissing
from lastout.evidence.events import Started
from lastout.evidence.settled import settled
from lastout.graces import Graces


def started_of(path: Path) -> Started:
    first = settled(path).events[0]
    assert isinstance(first, Started)
    return first


def test_it_runs_the_command_in_subprocess() -> None:
    argv = supervisor.command(["sh", "-c", "cat; exit 5"])
    done = subprocess.run(argv, input=b"hello", capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (5, b"hello", b"")


def test_it_runs_the_command_in_asyncio() -> None:
    async def run() -> bytes:
        argv = supervisor.command(["cat"])
        process = await asyncio.create_subprocess_exec(*argv, stdin=-1, stdout=-1)
        return (await process.communicate(b"hello"))[0]

    assert asyncio.run(run()) == b"hello"


def test_it_is_a_list_of_strings_for_a_config_file() -> None:
    argv = supervisor.command([b"npx", Path("server")], graces="mcp")
    assert json.loads(json.dumps(argv)) == argv
    assert argv[-3:] == ["--", "npx", "server"]
    assert argv[argv.index("--budget") + 1] == "mcp"


def test_every_option_reaches_the_run(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    lock = tmp_path / "1"
    argv = supervisor.command(
        ["sh", "-c", 'echo "$0"; umask; pwd; ulimit -n', "name", "--api-key=hunter2"],
        owner="self",
        graces=Graces(stdin=0.25, term=1.5, reap=0.75),
        run="my.run",
        key="my key",
        lock=lock,
        epoch=1,
        record=record,
        stdin_end="ignore",
        leftovers="wait",
        timeout=30,
        forward=["HUP", 2],
        close_fds=True,
        new_session=True,
        argv0="shell",
        cwd=tmp_path,
        umask=0o027,
        rlimits={"NOFILE": (64, 128), "RLIMIT_CORE": (0, -1)} if os.geteuid() == 0 else None,
        mask=[3],
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "name"
    assert lines[1:3] == ["0027", str(tmp_path)]
    started = started_of(record)
    assert started.run == "my.run"
    assert started.key == "my key"
    assert (started.epoch, started.lock) == (1, str(lock))
    assert started.owner_watch == "told"
    assert started.owner is not None
    assert started.owner.pid == os.getpid()
    assert started.argv[3] == "***"
    assert started.argv[4] == "--api-key=***"
    assert (started.stdin_grace_ms, started.term_grace_ms, started.reap_bound_ms) == (
        250,
        1500,
        750,
    )
    assert (started.stdin_end, started.leftovers, started.timeout_ms) == ("ignore", "wait", 30000)


def test_nobody_or_an_ancestor_can_be_the_owner() -> None:
    mine = identity.take(os.getpid())
    assert f"{mine.pid}:{mine.start}" in supervisor.command(["true"], owner=mine)
    assert "none" in supervisor.command(["true"], owner=None)
    assert "--owner" not in supervisor.command(["true"], owner="parent")


def test_an_owner_that_is_no_ancestor_is_refused_by_the_program() -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        argv = supervisor.command(["touch", "/nonexistent"], owner=identity.take(stranger.pid))
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 1
        assert "--owner none" in done.stderr
    finally:
        stranger.kill()
        stranger.wait()


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"argv": "true"}, TypeError, "one string"),
    ({"argv": []}, ValueError, "no command"),
    ({"argv": [""]}, ValueError, "no command"),
    ({"argv": ["a\0b"]}, ValueError, "NUL"),
    ({"argv": [3]}, TypeError, "int"),
    ({"owner": "me"}, ValueError, "owner"),
    ({"owner": 12}, ValueError, "owner"),
    ({"graces": "fast"}, ValueError, "preset"),
    ({"graces": Graces(observe=1)}, ValueError, "observer"),
    ({"run": "a/b"}, ValueError, "run id"),
    ({"state": "/tmp/x"}, ValueError, "record=True"),
    ({"lock": "/tmp/x"}, ValueError, "epoch"),
    ({"epoch": 3}, ValueError, "lock"),
    ({"control": -1}, ValueError, "control"),
    ({"control": True}, ValueError, "control"),
    ({"stdin_end": "never"}, ValueError, "stdin_end"),
    ({"leftovers": "kill"}, ValueError, "leftovers"),
    ({"contain": "docker"}, ValueError, "contain"),
    ({"contain": "pidns", "leftovers": "wait"}, ValueError, "pidns"),
    ({"timeout": -1}, ValueError, "timeout"),
    ({"timeout": float("nan")}, ValueError, "timeout"),
    ({"forward": ["TERM"]}, ValueError, "TERM"),
    ({"forward": ["SIGKILL"]}, ValueError, "KILL"),
    ({"forward": ["NOPE"]}, ValueError, "NOPE"),
    ({"keep_fds": [5]}, ValueError, "close_fds"),
    ({"umask": 0o1000}, ValueError, "umask"),
    ({"uid": -1}, ValueError, "uid"),
    ({"groups": ["wheel"]}, ValueError, "group"),
    ({"rlimits": {"NOFILE": (-2, 5)}}, ValueError, "NOFILE"),
    ({"mask": [1]}, ValueError, "mask"),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_bad_input_is_refused_in_words(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        supervisor.command(options.pop("argv", ["true"]), **options)


def test_a_short_time_is_written_as_the_program_reads_it(tmp_path: Path) -> None:
    """Python prints 0.00001 as 1e-05, which is no number of seconds to the supervisor."""
    argv = supervisor.command(["sleep", "60"], timeout=0.00001, graces="instant")
    assert subprocess.run(argv, stdin=subprocess.DEVNULL).returncode == 124


def test_a_missing_program_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SupervisorMissing, match="make native"):
        supervisor.command(["true"])


def test_secrets_are_masked_without_being_asked(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    argv = supervisor.command(["true", "--token", "abc", "plain"], record=record)
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    assert started_of(record).argv == ("true", "--token", "***", "plain")
