"""A plain command as a job: its end is told when nothing of it is left, and told truly."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest

from harness.jobs import PATIENCE, Gate, Line, Until
from lastout.identity import Alive, still_alive, take
from lastout.jobs import Command, Jobs, Process
from lastout.proctable import read_stat


def test_the_native_end_of_a_command_is_told(store: Jobs) -> None:
    good = store.submit(Command(["sh", "-c", "echo out; echo err >&2"]))
    bad = store.submit(Command(["sh", "-c", "exit 3"]))
    killed = store.submit(Command(["sh", "-c", "kill -USR1 $$"]))
    result = good.wait(PATIENCE)
    assert (result.code, result.failed, result.why, result.final) == (0, False, "completion", True)
    assert good.output("stdout") == (b"out\n", 0, b"")
    assert good.output("stderr") == (b"err\n", 0, b"")
    result = bad.wait(PATIENCE)
    assert (result.code, result.failed, result.why) == (3, True, "completion")
    result = killed.wait(PATIENCE)
    assert (result.code, result.signal, result.returncode) == (None, signal.SIGUSR1, -10)


def test_it_runs_where_and_with_what_its_caller_said(store: Jobs, tmp_path: Path) -> None:
    script = "pwd; umask; echo $GIVEN $HOME; cat"
    before = os.umask(0o027)
    try:
        job = store.submit(
            Command(["sh", "-c", script], cwd=str(tmp_path), env={"GIVEN": "this", "PATH": "/bin"})
        )
    finally:
        os.umask(before)
    assert not job.wait(PATIENCE).failed
    assert job.output()[0].decode().splitlines() == [str(tmp_path), "0027", "this"]
    assert (Path(job.directory) / "spec.json").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_down_is_left_out_of_an_environment(store: Jobs) -> None:
    os.environb[b"ODD"] = b"\xff\xfe"
    try:
        job = store.submit(Command(["sh", "-c", "echo ${ODD-without}"]))
    finally:
        del os.environ["ODD"]
    assert job.wait(PATIENCE).code == 0
    assert job.output()[0] == b"without\n"


def test_a_detached_grandchild_of_a_shell_that_exited_is_stopped_first(
    store: Jobs, tmp_path: Path, line: Line, until: Until, gate: Gate
) -> None:
    detached = tmp_path / "detached.sh"
    detached.write_text(f"setsid sh -c 'echo $$ >{tmp_path}/said; exec sleep 600' &\n")
    go = gate()
    # The sibling lives in the same way, and nobody may touch it.
    sibling = store.submit(Command(["sh", "-c", f"sh {detached}; sleep 600"]))
    theirs = take(int(line()))
    # The shell in the middle has exited; what it started has a session of its own, and its parent
    # is the supervisor.
    job = store.submit(Command(["sh", "-c", f"sh {detached}; read x <{tmp_path}/go"]))
    ours = take(int(line()))
    go()
    result = job.wait(PATIENCE)
    assert still_alive(ours) is Alive.NO
    assert still_alive(theirs) is Alive.YES
    assert (result.why, result.code, result.remaining_count) == ("completion", 0, 0)
    assert [(one.pid, one.start) for one in result.stopped] == [(ours.pid, ours.start)]
    assert sibling.status().state == "running"


def test_a_tool_gets_its_finally(store: Jobs, tmp_path: Path, line: Line) -> None:
    source = f"""
import os, signal, sys
def ended(*_):
    raise SystemExit(0)
signal.signal(signal.SIGTERM, ended)
said = open("{tmp_path}/said", "w")
try:
    print("ready", file=said, flush=True)
    signal.pause()
finally:
    open("{tmp_path}/finally", "w").write("done")
"""
    job = store.submit(Command(["sh", "-c", f"setsid {sys.executable} -c '{source}' & wait"]))
    assert line() == "ready"
    assert job.cancel(by="the test")
    result = job.wait(PATIENCE)
    assert (tmp_path / "finally").read_text() == "done"
    assert (result.why, result.ended_by, result.remaining_count) == ("abort", "the test", 0)
    assert result.locks == ()


def test_locks_of_what_was_killed_are_named_and_their_files_stay(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate
) -> None:
    # The lock was taken by a shell that has gone: only its child holds it when the kill comes. One
    # process: a child of it could be killed with it, and be reaped by it before it dies itself.
    lock = tmp_path / "its.lock"
    script = (
        f"exec 9>{lock}; flock 9; "
        f"setsid sh -c \"trap '' TERM; echo held >{tmp_path}/said; exec sleep 600\" & "
        f"read x <{tmp_path}/go; exit 0"
    )
    go = gate()
    job = store.submit(Command(["sh", "-c", script], graces="jupyter"))
    assert line() == "held"
    go()
    result = job.wait(PATIENCE)
    assert result.code == 0
    assert result.remaining_count == 0
    assert {(one.path, one.kind, one.mode) for one in result.locks} == {
        (str(lock), "FLOCK", "WRITE")
    }
    assert {one.pid for one in result.locks} <= {one.pid for one in result.stopped}
    with open(lock) as file:  # it is there, and free
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_is_taken_during_the_grace_is_named_too(
    store: Jobs, tmp_path: Path, line: Line, until: Until, gate: Gate
) -> None:
    script = (
        f"trap 'read x <{tmp_path}/go; exec 9>{tmp_path}/late; flock 9' TERM; "
        f"echo on >{tmp_path}/said; while :; do sleep 600; done"
    )
    go = gate()
    job = store.submit(Command(["sh", "-c", script], graces="jupyter"))
    line()
    job.cancel()
    until(job, lambda status: status.why)  # the first look is over, or about to be
    go()
    result = job.wait(PATIENCE)
    assert result.signal == signal.SIGKILL
    assert str(tmp_path / "late") in {one.path for one in result.locks}


def test_who_ends_during_the_grace_was_not_killed_with_its_locks(
    store: Jobs, tmp_path: Path, line: Line, until: Until, gate: Gate
) -> None:
    go = gate()
    source = f"""
import fcntl, signal
go = open("{tmp_path}/go", "r+b", buffering=0)  # for both: nothing is lost between two openings
signal.signal(signal.SIGTERM, lambda *_: exit(go.readline() and 0))
with open("{tmp_path}/held", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    open("{tmp_path}/said", "w").write("on\\n")
    while True:
        signal.pause()
"""
    job = store.submit(Command([sys.executable, "-c", source]))
    line()
    job.cancel()
    until(job, lambda status: status.why)  # the runner has heard of the stop, and looks
    go()
    result = job.wait(PATIENCE)
    assert (result.code, result.signal, result.why) == (0, None, "abort")
    assert result.locks == ()


def test_a_timeout_ends_all_of_it(store: Jobs) -> None:
    job = store.submit(Command(["sh", "-c", "setsid sleep 600 & sleep 600"], timeout=0.3))
    result = job.wait(PATIENCE)
    assert (result.why, result.failed, result.remaining_count) == ("timeout", True, 0)
    assert [one.name for one in result.stopped] in (["sleep"], ["sh"], [""])
    assert "0.3 s" in (result.reason or "")


def test_a_stop_by_somebody_else_is_said(store: Jobs, until: Until) -> None:
    job = store.submit(Command(["sleep", "600"]))
    status = until(job, lambda status: status.state == "running")
    (front,) = _children(status.runner)
    os.kill(front, signal.SIGTERM)  # a person with a process list
    result = job.wait(PATIENCE)
    assert (result.why, result.failed) == ("abort", True)
    assert f"pid {os.getpid()}" in (result.ended_by or "")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (Command(["/nonexistent/program"]), "/nonexistent/program: No such file or directory"),
        (Command(["true"], cwd="/nonexistent"), "/nonexistent: No such file or directory"),
        (Command(["true"], capture=False, output="/nonexistent/x"), "/nonexistent/x: No such file"),
    ],
)
def test_what_cannot_be_started_fails_before_anything_is(
    store: Jobs, work: Command, said: str
) -> None:
    result = store.submit(work).wait(PATIENCE)
    assert (result.why, result.failed, result.code) == ("not-started", True, None)
    assert said in (result.reason or "")
    assert result.remaining_count == 0


def test_a_record_that_cannot_be_written_fails_the_job_before_it_starts(
    store: Jobs, tmp_path: Path
) -> None:
    runs = Path(store.state) / "runs"
    runs.write_text("in the way")
    job = store.submit(Command(["touch", str(tmp_path / "started")]))
    result = job.wait(PATIENCE)
    assert (result.why, result.failed) == ("not-started", True)
    assert not (tmp_path / "started").exists()
    runs.unlink()


def test_a_runner_that_is_asked_to_end_ends_its_job_and_says_so(store: Jobs, until: Until) -> None:
    job = store.submit(Command(["sleep", "600"]))
    status = until(job, lambda status: status.state == "running")
    assert status.runner is not None
    os.kill(status.runner.pid, signal.SIGTERM)  # a machine that is shut down
    result = job.wait(PATIENCE)
    assert (result.why, result.failed, result.remaining_count) == ("shutdown", True, 0)


def test_the_feed_tells_the_story_in_order(store: Jobs) -> None:
    job = store.submit(Command(["sh", "-c", "echo hello; exit 1"]))
    told = list(job.follow_blocking(timeout=PATIENCE))
    assert [type(one).__name__ for one in told] == ["TurnBegan", "Started", "TurnEnded", "Ended"]
    assert [one.seq for one in told] == [1, 2, 3, 4]
    assert job.feed(after=2) == told[2:]
    assert job.feed(after=1, limit=1) == told[1:2]


@pytest.mark.anyio
async def test_waiting_and_following_on_a_loop(store: Jobs) -> None:
    job = store.submit(Command(["echo", "hello"]))
    result = await job.wait_async(PATIENCE)
    assert result == job.wait(0)
    assert [one.seq async for one in job.follow(after=2)] == [3, 4]


def _children(runner: Process | None) -> list[int]:
    assert runner is not None
    return [
        int(entry)
        for entry in os.listdir("/proc")
        if entry.isdigit() and _parent(entry) == runner.pid
    ]


def _parent(pid: str) -> int | None:
    try:
        return read_stat(pid).ppid
    except ProcessLookupError:
        return None
