"""Results: durable first, delivered once, kept until somebody has them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.identity import Identity
from harness.jobs import PATIENCE, Gate, Line, runners_end
from lastout import jobs
from lastout.jobs import (
    AgentTurn,
    AlreadyTaken,
    Command,
    DamagedJob,
    JobBusy,
    JobEnded,
    Jobs,
    NewerSpec,
    NoResult,
    NoSuchJob,
    NotTaken,
    Result,
    door,
    inbox,
)
from lastout.jobs.desk import Desk
from lastout.jobs.work import Message


def test_many_takers_and_one_gets_it(store: Jobs) -> None:
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    told: list[object] = []

    def take(taker: str) -> None:
        try:
            told.append((taker, job.take(taker)))
        except AlreadyTaken as error:
            told.append(error)

    threads = [threading.Thread(target=take, args=(f"taker {n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ((taker, result),) = [one for one in told if isinstance(one, tuple)]
    errors = [one for one in told if isinstance(one, AlreadyTaken)]
    assert {error.taker for error in errors} == {taker}
    assert len(errors) == 5
    assert job.take(taker) == result  # its answer may have been lost on the way
    assert job.status().taken == (1,)


def test_a_caller_that_starts_again_finds_its_jobs_and_hears_what_it_missed(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate
) -> None:
    go = gate()
    script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go; echo late"
    source = str(Path(jobs.__file__).resolve().parent.parent.parent)
    code = (
        f"import sys, os; sys.path.insert(0, {source!r})\n"
        "from lastout.jobs import Command, open_jobs\n"
        f"store = open_jobs({store.state!r})\n"
        f"job = store.submit(Command(['sh', '-c', {script!r}], by='host 7', name='mine'))\n"
        "job.wait()"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    assert line() == "on"
    caller.kill()  # in the middle of its wait
    caller.wait()
    (status,) = jobs.open_jobs(store.state).list(by="host 7")
    again = store.get(status.id)
    assert status.runner_alive
    seen = len(again.feed())
    go()
    assert again.wait(PATIENCE).code == 0
    missed = list(again.follow_blocking(seen, PATIENCE))
    assert [one.seq for one in missed] == [one.seq for one in again.feed()][seen:]
    assert [type(one).__name__ for one in missed][-2:] == ["TurnEnded", "Ended"]
    assert store.get("mine").id == again.id


def test_a_message_that_was_delivered_is_waited_for_before_its_turn_has_begun(
    store: Jobs,
) -> None:
    with door.door(store.state):  # nobody else runs it
        held = [slot for _ in range(4) if (slot := door.free_slot(store.state)) is not None]
    job = store.submit(AgentTurn(agent="scripted", prompt="one"))
    desk = Desk(store.state, job.spec)
    desk.claim()
    desk.turn_began(None)
    first = Result(version=0, job="", turn=0, final=False, failed=False, why="completion")
    desk.publish(first)
    desk.idle(60)
    assert job.wait(0).turn == 1
    job.message("two")
    with pytest.raises(TimeoutError):
        job.wait(0)
    assert len(desk.requests()) == 1
    state = job.status().state
    with contextlib.suppress(TimeoutError):
        raise AssertionError(f"it waits for nothing, and has {job.wait(0)}")
    desk.end(first)
    desk.close()
    for _, fd in held:
        os.close(fd)
    assert (state, job.status().state) == ("running", "ended")


def test_nothing_is_removed_that_runs_or_was_not_taken(
    store: Jobs, tmp_path: Path, line: Line, nothing_left: set[Identity], gate: Gate
) -> None:
    go = gate()
    script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go"
    job = store.submit(Command(["sh", "-c", script], name="it"))
    assert line() == "on"
    with pytest.raises(JobBusy):
        job.remove(untaken=True)
    with pytest.raises(NoResult):
        job.result()
    with pytest.raises(TimeoutError):
        job.wait(0)
    go()
    job.wait(PATIENCE)
    runners_end(store.state, nothing_left)
    with pytest.raises(NotTaken):
        job.remove()
    job.take("me")
    job.remove()
    assert not Path(job.directory).exists()
    with pytest.raises(NoSuchJob):
        job.status()
    with pytest.raises(NoSuchJob):
        store.get("it")
    with pytest.raises(NoSuchJob):
        job.wait(0)


def test_after_the_end_nothing_more_is_taken_in(store: Jobs) -> None:
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    assert job.cancel() is False
    with pytest.raises(ValueError, match="plain command"):
        job.message("hello")
    with pytest.raises(NoResult):
        job.wait(PATIENCE, turn=2)


def test_a_message_after_the_end_says_how_to_go_on(store: Jobs) -> None:
    # As an agent's job looks that has ended, whoever ran it.
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    spec = job.spec
    agent = jobs.AgentTurn(agent="scripted", prompt="hello", by="me", cwd="/", env={})
    changed = msgspec.structs.replace(spec, work=agent)
    (Path(job.directory) / "spec.json").write_bytes(msgspec.json.encode(changed))
    with pytest.raises(JobEnded, match=f"submit --continue {job.id}"):
        job.message("more")


def test_a_closed_inbox_takes_nothing_and_remembers(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    runner = inbox.Inbox(str(tmp_path))
    first = Message(id="a", text="hello")
    assert inbox.put(str(tmp_path), first, "a")
    assert not inbox.put(str(tmp_path), first, "a")  # a retry
    assert [request.id for _, request in runner.close() if isinstance(request, Message)] == ["a"]
    with pytest.raises(FileNotFoundError):
        inbox.put(str(tmp_path), Message(id="b", text="too late"), "b")
    assert inbox.there(str(tmp_path), "message", "a") is not None
    assert inbox.there(str(tmp_path), "message", "b") is None
    runner.reopen()
    assert inbox.put(str(tmp_path), Message(id="b", text="in time"), "b")
    assert [request.id for _, request in runner.new() if isinstance(request, Message)] == ["b"]


@pytest.mark.parametrize("name", ["spec.json", "result-1.json"])
def test_a_damaged_file_is_said_and_left(store: Jobs, name: str) -> None:
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    path = Path(job.directory) / name
    path.write_bytes(b"{")
    (told,) = store.list()
    assert (told.id, told.problem is not None) == (job.id, True)
    assert f"{name} cannot be read" in str(told.problem)
    with pytest.raises(DamagedJob, match="cannot be read"):
        job.remove(untaken=True)
    assert path.read_bytes() == b"{"


@pytest.mark.parametrize("more", [{}, {"work": {"type": "later", "what": ["nobody", "knows"]}}])
def test_files_of_a_later_version_are_left_alone(store: Jobs, more: dict[str, Any]) -> None:
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    path = Path(job.directory) / "spec.json"
    later = msgspec.json.decode(path.read_bytes())
    later |= {"version": 2, **more}
    path.write_bytes(msgspec.json.encode(later))
    # As if it were still to be run: no runner of this version touches it.
    (Path(store.directory) / "queue" / f"{1:020d}.00000000.{job.id}").touch()
    for name in ("state.json", "result-1.json"):
        (Path(job.directory) / name).unlink()
    with pytest.raises(NewerSpec, match="later version"):
        _ = job.spec
    with pytest.raises(NewerSpec):
        job.cancel()
    with pytest.raises(NewerSpec):
        job.remove(untaken=True)
    other = store.submit(Command(["true"]))
    assert other.wait(PATIENCE).code == 0
    (told,) = [status for status in store.list() if status.id == job.id]
    assert told.problem is not None
    assert "update lastout" in told.problem
    assert not (Path(job.directory) / "result-1.json").exists()


def test_a_torn_line_of_a_feed_costs_that_line(store: Jobs) -> None:
    job = store.submit(Command(["true"]))
    before = list(job.follow_blocking(timeout=PATIENCE))
    path = Path(job.directory) / "feed.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event":"progress","seq":5,"te')
    assert job.feed() == before
    path.write_bytes(path.read_bytes() + b'\n{"event":"of tomorrow","seq":6,"at":"x","more":1}\n')
    (last,) = job.feed(after=4)
    assert (type(last).__name__, last.seq) == ("Other", 6)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    path = tmp_path / "small"
    path.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(path)]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield path
    # Lazily: what a failed test has left must not keep it mounted for ever.
    subprocess.run(["umount", "-l", str(path)], check=True)


def _fill(path: Path) -> Path:
    full = path / "full"
    with open(full, "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return full


@pytest.mark.root
def test_a_full_disk_at_submit_is_an_error_that_leaves_nothing(
    small: Path, nothing_left: set[Identity]
) -> None:
    store = jobs.open_jobs(small / "state")
    store.submit(Command(["true"])).wait(PATIENCE)
    runners_end(store.state, nothing_left)
    full = _fill(small)
    before = sorted(os.listdir(store.directory))
    with pytest.raises(OSError, match="No space left"):
        store.submit(Command(["true"]))
    assert sorted(os.listdir(store.directory)) == before
    full.unlink()
    assert store.submit(Command(["true"])).wait(PATIENCE).code == 0
    runners_end(store.state, nothing_left)


@pytest.mark.root
def test_a_disk_that_fills_up_costs_output_never_the_result(
    small: Path, tmp_path: Path, line: Line, nothing_left: set[Identity], gate: Gate
) -> None:
    store = jobs.open_jobs(small / "state")
    go = gate()
    script = (
        f"echo on >{tmp_path}/said; read x <{tmp_path}/go; "
        "head -c 300000 /dev/zero; echo oh >&2; exit 3"
    )
    job = store.submit(Command(["sh", "-c", script]))
    assert line() == "on"
    full = _fill(small)
    go()
    result = job.wait(PATIENCE)
    assert (result.code, result.why, result.failed, result.remaining_count) == (
        3, "completion", True, 0,
    )  # fmt: skip
    assert result.stdout is not None
    assert result.stdout.total == 300_000
    assert result.stdout.dropped > 200_000
    assert result.stdout.error == "No space left on device"
    assert job.status().ended
    runners_end(store.state, nothing_left)
    full.unlink()
    assert job.take("me") == result


@pytest.mark.root
def test_a_disk_that_is_full_when_a_job_is_to_start_fails_it_before_anything_starts(
    small: Path, tmp_path: Path, nothing_left: set[Identity]
) -> None:
    store = jobs.open_jobs(small / "state")
    store.submit(Command(["true"])).wait(PATIENCE)
    with door.door(store.state):
        held = [slot for _ in range(4) if (slot := door.free_slot(store.state)) is not None]
    job = store.submit(Command(["touch", str(tmp_path / "started")]))
    full = _fill(small)
    for _, fd in held:
        os.close(fd)
    result = job.wait(PATIENCE)
    assert (result.why, result.failed, result.remaining_count) == ("not-started", True, 0)
    assert "No space left" in (result.reason or "")
    assert not (tmp_path / "started").exists()
    runners_end(store.state, nothing_left)
    full.unlink()
