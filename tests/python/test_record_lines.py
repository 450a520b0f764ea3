"""Events and the journal: what is read is what was written, and nothing is guessed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastout import supervisor
from lastout.evidence import events, journal
from lastout.evidence.events import (
    Note,
    Prepared,
    Started,
    StopBegan,
    TreeGone,
    TreeUnproven,
    Unknown,
)
from lastout.evidence.settled import settled
from lastout.evidence.summary import summarise
from lastout.evidence.why import story

HEADER = {"v": 1, "run": "r", "from": "keeper", "boottime_ns": 5, "time": "2026-01-01T00:00:00Z"}


def line(event: str, seq: int = 1, **fields: Any) -> bytes:
    return json.dumps({**HEADER, "event": event, "seq": seq, **fields}).encode()


def test_every_line_of_a_real_run_is_known(tmp_path: Path) -> None:
    """Stopped, with leftovers: each event of this run has its struct, none is Unknown."""
    record = tmp_path / "r.jsonl"
    script = "trap '' TERM; setsid sleep 60 & setsid sh -c \"trap '' TERM; sleep 60\" & sleep 60"
    argv = supervisor.command(["sh", "-c", script], record=record, timeout=0.3, graces="codex-sdk")
    subprocess.run(argv, stdin=subprocess.DEVNULL)
    contents = settled(record)
    assert contents.problems == []
    assert not [event for event in contents.events if isinstance(event, Unknown)]
    kinds = {type(event).__name__ for event in contents.events}
    assert kinds >= {"Started", "StopBegan", "Signalled", "RootExited", "Reaped", "TreeGone"}
    assert isinstance(contents.final, TreeGone)
    assert contents.final.remaining == 0


def test_every_field_of_a_real_run_is_known(tmp_path: Path) -> None:
    """A field that the program writes and the structs do not have would be lost in silence."""
    record = tmp_path / "r.jsonl"
    script = "trap '' TERM; setsid sleep 60 & sleep 60"
    argv = supervisor.command(["sh", "-c", script], record=record, timeout=0.3, graces="codex-sdk")
    subprocess.run(argv, stdin=subprocess.DEVNULL)
    settled(record)
    for raw in record.read_bytes().splitlines():
        written = json.loads(raw)
        kept = json.loads(events.encode(events.decode(raw)))
        assert written.keys() <= kept.keys(), written["event"]
        assert {name: kept[name] for name in written} == written


def test_an_event_of_a_later_version_is_kept_whole() -> None:
    event = events.decode(line("teleported", where="moon"))
    assert isinstance(event, Unknown)
    assert (event.kind, event.fields["where"]) == ("teleported", "moon")
    assert json.loads(events.encode(event)) == json.loads(line("teleported", where="moon"))


def test_fields_of_a_later_version_are_skipped() -> None:
    event = events.decode(line("stop", trigger="timeout", colour="red"))
    assert isinstance(event, StopBegan)
    assert event.trigger == "timeout"


def test_null_means_not_said() -> None:
    identity = {"pid": 2, "start": None, "inode": 7}
    lines = line(
        "started", front=identity, keeper=identity, root=identity, max_stop_ms=5, host=None
    )
    event = events.decode(lines)
    assert isinstance(event, Started | Unknown)
    unproven = events.decode(line("tree-unproven", remaining_count=None, remaining=None))
    assert isinstance(unproven, TreeUnproven)
    assert unproven.remaining_count is None
    host = events.decode(
        line(
            "started",
            front={"pid": 1},
            keeper={"pid": 1},
            root={"pid": 1},
            max_stop_ms=5,
            host=None,
        )
    )
    assert isinstance(host, Started)


def test_a_known_event_that_cannot_be_read_is_kept_whole() -> None:
    event = events.decode(line("started", front="somebody"))
    assert isinstance(event, Unknown)
    assert event.kind == "started"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"12", b"null", b"{}", b'{"event":"stop"}', b"\xff"]
)
def test_what_is_no_line_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(events.NotALine):
        events.decode(raw)


def test_bytes_that_are_not_utf8_survive() -> None:
    """A file name is bytes; Python carries what is not UTF-8 as lone surrogates."""
    word = os.fsdecode(b"caf\xe9")
    written = Prepared(run="r", source="owner", seq=1, boottime_ns=1, time="t", argv=(word,))
    read = events.decode(events.encode(written))
    assert isinstance(read, Prepared)
    assert os.fsencode(read.argv[0]) == b"caf\xe9"


def test_an_argument_that_is_not_utf8_reaches_the_record(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    argv = supervisor.command(["true", b"caf\xe9"], record=record)
    subprocess.run([os.fsencode(word) for word in argv], check=True, stdin=subprocess.DEVNULL)
    contents = settled(record)
    assert contents.problems == []
    assert isinstance(contents.events[0], Started)


def test_a_line_that_was_sent_twice_counts_once() -> None:
    twice = line("note", 1, text="a") + b"\n"
    other = json.dumps({**json.loads(twice), "from": "front"}).encode() + b"\n"
    contents = journal.parse(twice + other + twice)
    assert [event.source for event in contents.events] == ["keeper", "front"]
    assert contents.duplicates == 1


def test_a_torn_last_line_is_reported() -> None:
    whole = line("note", 1, text="a") + b"\n"
    contents = journal.parse(whole + whole[:20])
    assert len(contents.events) == 1
    (problem,) = contents.problems
    assert (problem.kind, problem.offset, problem.data) == ("torn", len(whole), whole[:20])


def test_a_foreign_line_is_reported_and_reading_goes_on() -> None:
    first, last = line("note", 1, text="a") + b"\n", line("note", 2, text="b") + b"\n"
    contents = journal.parse(first + b"who wrote this?\n" + last)
    assert [event.seq for event in contents.events] == [1, 2]
    (problem,) = contents.problems
    assert (problem.kind, problem.offset) == ("foreign", len(first))


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    follower = journal.Follower()
    found = [entry for _ in range(40) for entry in follower.feed(b"x" * 65536)]
    found += follower.feed(b"\n" + line("note", 1, text="a") + b"\n")
    problems = [entry for entry in found if isinstance(entry, journal.Problem)]
    assert sum(len(problem.data) for problem in problems) == 40 * 65536
    assert max(len(problem.data) for problem in problems) <= (1 << 20) + 65536
    assert {problem.kind for problem in problems} == {"foreign"}
    assert isinstance(found[-1], Note)


@given(st.lists(st.integers(1, 60)), st.integers(1, 50))
def test_bytes_come_in_any_pieces(cuts: list[int], size: int) -> None:
    data = b"".join(line("note", seq, text="x" * size) + b"\n" for seq in range(1, 6)) + b"torn"
    follower, found = journal.Follower(), []
    for cut in [*cuts, len(data)]:
        found += follower.feed(data[:cut])
        data = data[cut:]
    found += follower.finish()
    assert [entry.seq for entry in found[:-1]] == [1, 2, 3, 4, 5]  # type: ignore[union-attr]
    assert isinstance(found[-1], journal.Problem)
    assert found[-1].data == b"torn"


def test_a_record_that_stops_in_the_middle_has_no_final_line() -> None:
    stop = line("stop", 1, trigger="timeout") + b"\n"
    gone = line("tree-gone", 2) + b"\n"
    later = json.dumps({**HEADER, "event": "note", "from": "owner", "seq": 1}).encode() + b"\n"
    assert journal.parse(stop).final is None
    assert isinstance(journal.parse(stop + gone).final, TreeGone)
    assert isinstance(journal.parse(stop + gone + later).final, TreeGone), "the owner's come after"


def test_the_owner_appends_with_a_count_of_its_own(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    record.write_bytes(line("stop", 7, trigger="timeout") + b"\n")
    with journal.Journal(record, "r") as opened:
        assert opened.append(Note, text="a").seq == 1
        assert opened.append(Note, text="b").seq == 2
    assert journal.append(record, Note, "r", text="c").seq == 3
    contents = journal.read(record)
    assert [event.source for event in contents.events] == ["keeper", "owner", "owner", "owner"]
    assert contents.duplicates == 0


def test_a_torn_line_before_ours_spoils_only_itself(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    record.write_bytes(b'{"torn by a full di')
    journal.append(record, Note, "r", text="a")
    contents = journal.read(record)
    assert [type(event) for event in contents.events] == [Note]
    assert [problem.data for problem in contents.problems] == [b'{"torn by a full di']


def test_two_owners_at_once_share_no_number(tmp_path: Path) -> None:
    """Who counts does so under the lock: what was written meanwhile is counted too."""
    record = tmp_path / "r.jsonl"
    program = (
        "import sys\nfrom lastout.evidence import journal, events\n"
        "with journal.Journal(sys.argv[1], 'r') as opened:\n"
        "    print('ready', flush=True)\n"
        "    print(opened.append(events.Note, text='second').seq)\n"
    )
    with open(record, "ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        argv = [sys.executable, "-c", program, str(record)]
        other = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
        file.write(line("note", 1, text="first").replace(b"keeper", b"owner") + b"\n")
        fcntl.flock(file, fcntl.LOCK_UN)
    assert other.communicate()[0] == b"2\n"
    contents = journal.read(record)
    assert [(event.source, event.seq) for event in contents.events] == [("owner", 1), ("owner", 2)]


def test_a_record_is_for_its_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        journal.append(tmp_path / "r.jsonl", Note, "r", text="a")
    finally:
        os.umask(old)
    assert (tmp_path / "r.jsonl").stat().st_mode & 0o777 == 0o600


def test_runs_that_were_appended_to_one_record_are_read_apart(tmp_path: Path) -> None:
    """Numbers begin at 1 again with each run, and an end is the end of its own run."""
    record = tmp_path / "r.jsonl"
    for run, code in (("one", 3), ("two", 4)):
        argv = supervisor.command(["sh", "-c", f"exit {code}"], record=record, run=run)
        assert subprocess.run(argv, stdin=subprocess.DEVNULL).returncode == code
        settled(record, run=run)
        assert journal.append(record, Note, run, text=run).seq == 1
    begun = next(one for one in record.read_bytes().splitlines() if b'"run":"two"' in one)
    whole = record.read_bytes()
    record.write_bytes(whole[: whole.index(begun) + len(begun) + 1])
    last, first = journal.read(record), journal.read(record, "one")
    assert [(one.run, type(one)) for one in last.events] == [("two", Started)]
    assert (last.others, last.final) == (("one",), None), "the end is the other run's"
    assert {one.run for one in first.events} == {"one"}
    assert isinstance(first.final, TreeGone)
    assert first.duplicates == last.duplicates == 0
    assert journal.read(record, "three").events == []
    told = story(last)
    assert [claim.facts["runs"] for claim in told.claims if claim.kind == "other-runs"] == [["one"]]
    assert told.run == "two"
    assert summarise(last).state == "open"


def test_who_follows_a_record_waits_for_the_end_of_its_last_run() -> None:
    follower = journal.Follower()
    other = {**json.loads(line("stop", 1, trigger="signal")), "run": "second"}
    gone = line("tree-gone", 1) + b"\n"
    for data, over in (
        (gone, True),
        (json.dumps(other).encode() + b"\n", False),
        (gone.replace(b'"seq": 1', b'"seq": 2'), False),  # the first one's keeper, late
        (gone.replace(b'"r"', b'"second"').replace(b'"seq": 1', b'"seq": 2'), True),
    ):
        follower.feed(data)
        assert follower.over is over
    assert follower.duplicates == 0
