"""One run's share of the kernel's news, with made-up news."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastout.evidence import journal
from lastout.evidence.events import TracedExit, TracedOom, TracedProcess, TracedSignal, TraceEnded
from lastout.evidence.trace.join import RunTrace
from lastout.evidence.trace.source import Ended, Exited, Forked, Oom, Signal

from .records import FRONT, KEEPER, ROOT, SECOND, Record

# Numbers above pid_max: whatever is looked up of them in /proc is not there.
HIGH = 1 << 22
F, K, R, M = (HIGH + one["pid"] for one in (FRONT, KEEPER, ROOT, {"pid": 400}))
AT = 1000 * SECOND


def high(process: dict[str, int]) -> dict[str, int]:
    return {**process, "pid": HIGH + process["pid"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "r.jsonl"
    made.touch()
    return made


def tracer(path: Path, how: str = "tracefs") -> RunTrace:
    trace = RunTrace("20261130T120000-abcdef", str(path), how=how, senders=True, codes=True)
    trace.adopt(F)
    trace.begin("whole-run", 1)
    trace.take(Forked(AT - 30, F, K, "front"))
    trace.take(Forked(AT - 20, K, R, "keeper"))
    return trace


def write_started(path: Path) -> None:
    record = Record().started(front=high(FRONT), keeper=high(KEEPER), root=high(ROOT))
    with path.open("ab") as file:
        file.write(record.data())


def signal(at: int, target: int, **more: Any) -> Signal:
    fields = {
        "at_ns": at, "number": 9, "target": target, "target_name": "x", "by": "process",
        "sender": TracedProcess(911, 42, name="earlyoom"), "si_code": 0, "result": "delivered",
    }  # fmt: skip
    return Signal(**{**fields, **more})


def lines(path: Path, kind: type[Any]) -> list[Any]:
    return [event for event in journal.read(path).events if isinstance(event, kind)]


def test_what_comes_before_started_waits_for_it(path: Path) -> None:
    trace = tracer(path)
    assert trace.take(signal(AT + 5, R))
    assert lines(path, TracedSignal) == []
    write_started(path)
    trace.read_record()
    (told,) = lines(path, TracedSignal)
    assert (told.who, told.signal, told.at_ns) == ("root", "KILL", AT + 5)
    assert (told.target.pid, told.target.start) == (R, ROOT["start"])
    assert told.sender.name == "earlyoom"
    trace.close()


def test_strangers_are_nobodys(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    assert not trace.take(signal(AT + 5, HIGH + 9))
    assert not trace.take(Ended(AT + 5, HIGH + 9, HIGH + 9, 9, 1))
    assert not trace.take(Forked(AT + 5, HIGH + 9, HIGH + 10))
    trace.close()


def test_members_are_followed_by_their_forks(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    trace.take(Forked(AT + 1, R, M, "tool"))
    trace.take(signal(AT + 2, M))
    trace.take(Exited(AT + 3, M, "tool", True))
    trace.take(Ended(AT + 4, M, M, 9, R))
    (told,) = lines(path, TracedSignal)
    assert (told.who, told.target.name) == ("member", "tool")
    (ended,) = lines(path, TracedExit)
    assert (ended.who, ended.signal, ended.ppid) == ("member", "KILL", R)
    trace.close()


def test_the_roots_number_is_its_own_only_until_it_is_reaped(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    record = Record().started(front=high(FRONT), keeper=high(KEEPER), root=high(ROOT))
    record.exited(0, at=1).add("reaped", at=2, pid=R, who="root")
    path.write_bytes(path.read_bytes() + b"".join(record.data().splitlines(True)[1:]))
    trace.read_record()
    trace.take(Exited(AT + SECOND, R, "agent", True))
    assert trace.take(signal(AT + SECOND, R))
    assert not trace.take(signal(AT + 3 * SECOND, R))
    trace.close()


def test_what_the_supervisor_sends_to_members_is_its_own_lines_to_tell(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    trace.take(Forked(AT + 1, R, M, "tool"))
    keeper = TracedProcess(K, KEEPER["start"], name="lastout-keeper")
    trace.take(signal(AT + 2, M, sender=keeper))
    trace.take(signal(AT + 3, R, sender=keeper))
    (told,) = lines(path, TracedSignal)
    assert told.who == "root"
    assert (told.sender.pid, told.sender.inode) == (K, KEEPER["inode"])
    trace.close()


def test_a_sender_that_has_gone_has_the_name_that_the_kernel_kept(path: Path) -> None:
    trace = RunTrace(
        "20261130T120000-abcdef", str(path), how="tracefs", senders=True, codes=True,
        saved_name={911: "earlyoom"}.get,  # type: ignore[arg-type]
    )  # fmt: skip
    trace.adopt(F)
    trace.begin("whole-run", 1)
    trace.take(Forked(AT - 20, F, R, "front"))
    write_started(path)
    trace.read_record()
    trace.take(signal(AT + 5, R, sender=TracedProcess(911)))
    (told,) = lines(path, TracedSignal)
    assert (told.sender.name, told.sender.start) == ("earlyoom", 0)
    trace.close()


def test_an_oom_victim_is_named(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    trace.take(Oom(AT + 1, R, "agent", 1234))
    (told,) = lines(path, TracedOom)
    assert (told.who, told.anon_rss_kib) == ("root", 1234)
    trace.close()


def test_lines_are_bounded_and_what_is_left_out_is_counted(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    for number in range(600):
        trace.take(signal(AT + number, R, sender=TracedProcess(HIGH + 1000 + number, 1)))
    trace.end("", 7)
    assert len(lines(path, TracedSignal)) == 500
    (ended,) = lines(path, TraceEnded)
    assert (ended.omitted, ended.lost, ended.signals) == (100, 7, 600)


def test_a_flood_does_not_crowd_out_the_one_signal_that_counts(path: Path) -> None:
    trace = tracer(path)
    write_started(path)
    trace.read_record()
    for number in range(1000):
        trace.take(signal(AT + number, R, number=10, result="ignored"))
    trace.take(signal(AT + 2000, R))
    trace.end("", 0)
    told = lines(path, TracedSignal)
    assert [(one.signal, one.at_ns - AT) for one in told] == [
        ("USR1", 0), ("USR1", 1), ("KILL", 2000), ("USR1", 999),
    ]  # fmt: skip
    (ended,) = lines(path, TraceEnded)
    assert (ended.omitted, ended.repeated, ended.signals) == (0, 997, 1001)


def test_without_a_start_the_lines_are_written_at_the_end(path: Path) -> None:
    trace = tracer(path)
    trace.take(signal(AT, R))
    trace.end("", 0)
    (told,) = lines(path, TracedSignal)
    assert told.who == "member"


def test_untold_is_a_run_that_lives_and_that_nobody_has_named(path: Path) -> None:
    trace = tracer(path)
    assert trace.untold
    for pid in (F, K, R):
        trace.take(Exited(AT, pid, "x", True))
    assert not trace.untold
    trace.close()
    other = tracer(path)
    write_started(path)
    other.read_record()
    assert not other.untold
    other.close()


def test_only_the_runs_own_numbers_are_known(path: Path) -> None:
    trace = tracer(path)
    assert trace.knows(R)
    assert not trace.knows(HIGH + 9)
    trace.take(Exited(AT, R, "x", True))
    assert trace.knows(R), "a signal may still be on its way to be read"
    trace.close()


def test_by_the_connector_alone_forks_and_ends_are_enough(path: Path) -> None:
    trace = tracer(path, how="proc-connector")
    write_started(path)
    trace.read_record()
    trace.take(Forked(AT + 1, R, M))
    trace.take(Ended(AT + 2, M + 1, M, 5 << 8, R))  # a thread of it
    trace.take(Ended(AT + 3, M, M, 7 << 8, R))
    (ended,) = lines(path, TracedExit)
    assert (ended.code, ended.signal) == (7, None)
    trace.close()
