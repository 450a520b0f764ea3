"""The index: made from the files, never more than they hold, and never in the way."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from lastout.evidence.find import NoSuchRun, find
from lastout.evidence.index import Index, Row

from .records import Record

DAY = "20261130"


def put(state: Path, run: str, record: Record, age_s: float = 0) -> Path:
    for line in record.lines:
        line["run"] = run
    path = state / "runs" / run[:8] / f"{run}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(record.data())
    if age_s:
        now = path.stat().st_mtime - age_s
        os.utime(path, (now, now))
    return path


def ended(code: int = 0, **started: object) -> Record:
    return Record().started(**started).exited(code).gone()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def test_rows_say_what_the_records_say(state: Path) -> None:
    put(state, f"{DAY}T100000-aaaaaa", ended(3, key="thread-1", argv=["codex", "exec"]))
    put(state, f"{DAY}T100001-bbbbbb", Record().started().killed())
    put(state, f"{DAY}T100002-cccccc", Record().add("refused", writer="front", reason="lock",
        argv=["claude", "-p"], host="here", boot_id="b1"))  # fmt: skip
    unproven = Record().started().exited(0).add("tree-unproven", remaining=[], remaining_count=1)
    put(state, f"{DAY}T100003-dddddd", unproven)
    with Index(state) as index:
        assert index.refresh() == 4
        rows = {row.run[-6:]: row for row in index.rows()}
    assert (rows["aaaaaa"].state, rows["aaaaaa"].code, rows["aaaaaa"].key) == (
        "ended",
        3,
        "thread-1",
    )
    assert rows["aaaaaa"].command == "codex exec"
    assert (rows["bbbbbb"].state, rows["bbbbbb"].signal) == ("open", "KILL")
    assert rows["cccccc"].state == "not-started"
    assert (rows["cccccc"].command, rows["cccccc"].host) == ("claude -p", "here")
    assert rows["dddddd"].state == "unproven"


def test_filters(state: Path) -> None:
    put(state, f"{DAY}T100000-aaaaaa", ended(key="k", argv=["codex", "exec"]))
    put(state, f"{DAY}T100001-bbbbbb", ended(argv=["claude", "-p"]))
    with Index(state) as index:
        index.refresh()
        assert [row.run[-6:] for row in index.rows(key="k")] == ["aaaaaa"]
        assert [row.run[-6:] for row in index.rows(command="claude")] == ["bbbbbb"]
        assert index.rows(state="open") == []
        assert len(index.rows(limit=1)) == 1
        began = index.rows()[0].began_us
        assert began is not None
        assert index.rows(since_us=began + 1) == []
        assert len(index.rows(until_us=began + 1)) == 2


def test_only_what_changed_is_read_again(state: Path) -> None:
    old = put(state, f"{DAY}T100000-aaaaaa", ended(), age_s=3600)
    live = put(state, f"{DAY}T100001-bbbbbb", Record().started())
    with Index(state) as index:
        assert index.refresh() == 2
        assert index.refresh() == 0
        live.write_bytes(ended().data())
        assert index.refresh() == 1
        assert {row.state for row in index.rows()} == {"ended"}
        old.unlink()
        assert index.refresh() == 0
        assert len(index.rows()) == 1


def rest(*paths: Path) -> None:
    """As if nothing had happened there for an hour."""
    for path in paths:
        then = time.time() - 3600
        os.utime(path, (then, then))


def test_a_directory_at_rest_is_not_listed_again(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(state, f"{DAY}T100000-aaaaaa", ended(), age_s=3600)
    live = put(state, f"{DAY}T100001-bbbbbb", Record().started(), age_s=3600)
    rest(live.parent)
    with Index(state) as index:
        assert index.refresh() == 2
        monkeypatch.setattr("lastout.evidence.index.records_in", lambda path: 1 / 0)
        assert index.refresh() == 0
        live.write_bytes(ended().data())
        assert index.refresh() == 1, "one that has had no end is looked at all the same"
        monkeypatch.undo()
        put(state, f"{DAY}T100002-cccccc", ended())
        assert index.refresh() >= 1, "an addition makes the directory new"
        assert len(index.rows()) == 3
        for path in live.parent.iterdir():
            path.unlink()
        live.parent.rmdir()
        assert index.refresh() == 0
        assert index.rows() == []


def test_a_directory_that_changed_just_now_is_listed_again(state: Path) -> None:
    """An addition in the same tick of the clock leaves the directory's time as it was."""
    first = put(state, f"{DAY}T100000-aaaaaa", ended())
    moment = first.parent.stat().st_mtime_ns
    with Index(state) as index:
        assert index.refresh() == 1
        put(state, f"{DAY}T100001-bbbbbb", ended())
        os.utime(first.parent, ns=(moment, moment))
        assert index.refresh() == 1


def test_an_open_record_at_rest_is_not_read_for_ever(state: Path) -> None:
    put(state, f"{DAY}T100000-aaaaaa", Record().started(), age_s=3600)
    with Index(state) as index:
        assert index.refresh() == 1
        assert index.refresh() == 0


@pytest.mark.parametrize("damage", ["garbage", "version", "cut"])
def test_a_broken_index_is_made_anew(state: Path, damage: str) -> None:
    put(state, f"{DAY}T100000-aaaaaa", ended())
    with Index(state) as index:
        index.refresh()
    path = state / "index.sqlite3"
    if damage == "garbage":
        path.write_bytes(b"this is no database" * 100)
    elif damage == "version":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
            db.execute("DROP TABLE runs")
        db.close()
    else:
        path.write_bytes(path.read_bytes()[:5000])
    with Index(state) as index:
        index.refresh()
        assert len(index.rows()) == 1


def test_rebuild_forgets_what_is_in_no_file(state: Path) -> None:
    path = put(state, f"{DAY}T100000-aaaaaa", ended())
    with Index(state) as index:
        index.refresh()
        path.unlink()
        put(state, f"{DAY}T100001-bbbbbb", ended())
        assert index.rebuild() == 1
        assert [row.run[-6:] for row in index.rows()] == ["bbbbbb"]


def test_a_record_without_a_readable_line_is_still_listed(state: Path) -> None:
    path = put(state, f"{DAY}T100000-aaaaaa", ended())
    path.write_bytes(b"\x00garbage\n")
    with Index(state) as index:
        index.refresh()
        (row,) = index.rows()
    assert (row.run, row.state) == (f"{DAY}T100000-aaaaaa", "open")


def test_private_by_default(state: Path) -> None:
    with Index(state) as index:
        index.refresh()
        assert stat.S_IMODE(os.stat(index.path).st_mode) == 0o600


def test_two_at_a_time(state: Path) -> None:
    put(state, f"{DAY}T100000-aaaaaa", ended())
    with Index(state) as one, Index(state) as two:
        one.refresh()
        two.refresh()
        assert len(one.rows()) == len(two.rows()) == 1
        assert isinstance(one.rows()[0], Row)


def test_finding_a_run(state: Path) -> None:
    first = put(state, f"{DAY}T100000-aaaaaa", ended(), age_s=100)
    second = put(state, f"{DAY}T100001-bbbbbb", ended(), age_s=50)
    own = put(state, "my-job", ended(), age_s=10)
    assert find(f"{DAY}T100000-aaaaaa", state) == first
    assert find(f"{DAY}T100001", state) == second
    assert find("my-", state) == own
    assert find("last", state) == own
    assert find(str(first), state) == first
    for wrong in (DAY, "nothing", "./nothing.jsonl", ""):
        with pytest.raises(NoSuchRun):
            find(wrong, state)


def test_last_without_any_run(state: Path) -> None:
    with pytest.raises(NoSuchRun, match="no run yet"):
        find("last", state)
