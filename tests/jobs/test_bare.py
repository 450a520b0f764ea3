"""Without capture no Python waits with the command, and nothing else is different."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from harness.jobs import PATIENCE, Gate, Until
from lastout.evidence import journal
from lastout.evidence.events import StopBegan
from lastout.identity import take
from lastout.jobs import Command, Job, Jobs, Process, Status


def _rests(job: Job) -> Callable[[Status], bool]:
    """The runner has become a shell that waits."""

    def look(status: Status) -> bool:
        return status.runner is not None and _program(status.runner) != "python"

    return look


def _program(runner: Process) -> str:
    name = os.path.basename(os.readlink(f"/proc/{runner.pid}/exe"))
    return "python" if name.startswith("python") else name


def _private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _resting(store: Jobs, until: Until, *argv: str, **how: object) -> tuple[Job, Process]:
    from lastout.identity import same

    job = store.submit(Command(list(argv), capture=False, **how))  # type: ignore[arg-type]
    status = until(job, lambda status: status.state == "running")
    runner = status.runner
    assert runner is not None
    # It says that nobody waits there a moment before the shell is executed.
    with open(f"/proc/{runner.pid}/stat"):
        while _program(runner) == "python":
            os.sched_yield()
    assert same(take(runner.pid), runner.identity)
    return job, runner


def test_the_runner_keeps_its_identity_and_less_than_a_megabyte(
    store: Jobs, until: Until, tmp_path: Path, gate: Gate
) -> None:
    go = gate()
    job, runner = _resting(
        store, until, "sh", "-c", f"echo one; read x <{tmp_path}/go; echo two; exit 3",
        output=str(tmp_path / "log"),
    )  # fmt: skip
    assert _private_kib(runner.pid) < 1024
    assert job.status().runner_alive
    go()
    result = job.wait(PATIENCE)
    assert (result.code, result.why, result.stdout) == (3, "completion", None)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_cancel_reaches_it(store: Jobs, until: Until) -> None:
    job, _ = _resting(store, until, "sh", "-c", "setsid sleep 600 & sleep 600")
    assert job.cancel(by="me")
    result = job.wait(PATIENCE)
    assert (result.why, result.ended_by, result.signal) == ("abort", "me", signal.SIGTERM)
    assert result.remaining_count == 0
    assert result.stopped_count == 1


def test_a_cancel_without_grace_reaches_it_too(store: Jobs, until: Until) -> None:
    job, _ = _resting(store, until, "sh", "-c", "trap '' TERM; sleep 600; sleep 600")
    assert job.cancel(by="me", grace=0)
    assert job.wait(PATIENCE).signal == signal.SIGKILL
    (stop,) = [
        event
        for event in journal.read(job.status().record or "").events
        if isinstance(event, StopBegan)
    ]
    assert (stop.trigger, stop.reason, stop.by, stop.term_grace_ms) == (
        "requested",
        "abort",
        "me",
        0,
    )


def test_its_timeout_comes_too(store: Jobs, until: Until) -> None:
    job, _ = _resting(store, until, "sleep", "600", timeout=2.5)
    assert job.wait(PATIENCE).why == "timeout"


def test_locks_are_named_although_nobody_waited(store: Jobs, until: Until, tmp_path: Path) -> None:
    lock = tmp_path / "its.lock"
    job, _ = _resting(
        store, until, "flock", str(lock), "sh", "-c", "trap '' TERM; sleep 600; sleep 600",
        graces="jupyter",
    )  # fmt: skip
    job.cancel()
    result = job.wait(PATIENCE)
    assert {one.path for one in result.locks} == {str(lock)}


def _catches(pid: int, number: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def test_asked_to_end_while_it_rests_it_ends_its_job(store: Jobs, until: Until) -> None:
    job, runner = _resting(store, until, "sh", "-c", "setsid sleep 600 & sleep 600")
    while not _catches(runner.pid, signal.SIGTERM):
        os.sched_yield()
    os.kill(runner.pid, signal.SIGTERM)
    result = job.wait(PATIENCE)
    assert (result.why, result.ended_by) == ("shutdown", "SIGTERM to its runner")
    assert (result.signal, result.remaining_count) == (signal.SIGTERM, 0)
    assert [one.name for one in result.stopped] == ["sleep"]


def test_killed_while_it_rests_it_is_lost_and_nothing_lives_on(store: Jobs, until: Until) -> None:
    job, runner = _resting(store, until, "sh", "-c", "setsid sleep 600 & sleep 600")
    os.kill(runner.pid, signal.SIGKILL)
    result = job.wait(PATIENCE)
    assert (result.why, result.failed, result.remaining_count) == ("runner-lost", True, 0)
    assert result.signal == signal.SIGTERM
    assert [one.name for one in result.stopped] == ["sleep"]
