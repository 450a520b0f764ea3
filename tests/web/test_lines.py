"""Text of strangers, and files of any length."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lastout.web.lines import Lines
from lastout.web.plain import clean, plain
from lastout.web.view import View


def test_pages_of_a_hundred_thousand_lines(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"".join(b'{"seq":%d}\n' % number for number in range(100_000)))
    lines = Lines(str(path))
    assert lines.page(99_990, 100) == ([b'{"seq":%d}' % n for n in range(99_990, 100_000)], 100_000)
    assert lines.page(0, 1) == ([b'{"seq":0}'], 100_000)
    assert lines.page(100_000, 5) == ([], 100_000)


@settings(max_examples=50, deadline=None)
@given(
    parts=st.lists(st.binary(max_size=40), max_size=8),
    first=st.integers(0, 20),
    count=st.integers(0, 20),
)
def test_a_file_that_grows_has_the_lines_that_are_whole(
    tmp_path_factory: object, parts: list[bytes], first: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"  # type: ignore[attr-defined]
    path.touch()
    lines = Lines(str(path))
    whole = b""
    for part in parts:
        whole += part
        with path.open("ab") as file:
            file.write(part)
        wanted = whole.split(b"\n")[:-1]
        assert lines.page(first, count) == (wanted[first : first + count], len(wanted))


def test_a_file_that_is_another_one_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\nb\n")
    lines = Lines(str(path))
    assert lines.page(0, 9)[1] == 2
    path.unlink()
    path.write_bytes(b"c\n")
    assert lines.page(0, 9) == ([b"c"], 1)


def test_nothing_hides_or_reorders_what_stands_beside_it() -> None:
    assert plain("a\x1b[31m\0\n\tb") == "a\\x1b[31m\\x00\\n\\tb"
    assert plain("\u202eevil\u2066\u200b\ufeff") == "\\u202eevil\\u2066\\u200b\\ufeff"
    assert plain("\udcff\ud800") == "\\udcff\\ud800"
    assert plain("a\nb\tc\r", lines=True) == "a\nb\tc\\r"
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f"
    assert plain(family) == family
    assert plain("\u200dx") == "\\u200dx"


@given(st.text())
def test_every_text_can_be_sent(text: str) -> None:
    import msgspec

    assert msgspec.json.decode(msgspec.json.encode(clean({text: [text, 1, None]})))
    assert all(char.isprintable() or char in "\u200d\ufe0f" for char in plain(text))


def test_a_record_that_is_too_large_is_not_told(tmp_path: Path, monkeypatch: object) -> None:
    import lastout.web.why as module

    path = tmp_path / "record.jsonl"
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr(module, "LARGEST", 99)  # type: ignore[attr-defined]
    assert b"too large" in module.Stories().story(str(path))
    assert module.Stories().timeline(str(path)) == b""


def test_a_key_that_is_no_text_can_be_sent(tmp_path: Path) -> None:
    from lastout import sole_writer
    from lastout.web.board import Board
    from lastout.web.leases import Leases

    grant = sole_writer.acquire("k", state=tmp_path)
    leases = Leases(str(tmp_path), Board())
    rows, _ = leases._read()
    assert rows["k"]["run"] == grant.run
    from lastout.web.leases import _name

    assert _name("\udcff") == "\\udcff"


def test_of_two_runs_in_one_record_the_later_is_shown(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    header = {"v": 1, "from": "keeper", "boottime_ns": 5, "time": "2026-01-01T00:00:00Z"}

    def write(run: str, seq: int, event: str) -> str:
        with record.open("a") as file:
            file.write(json.dumps({**header, "run": run, "seq": seq, "event": event}) + "\n")
        view.read()
        return view.state

    view = View(str(record))
    assert write("one", 1, "tree-gone") == "ended"
    assert write("two", 1, "takeover") == "starting"
    assert write("one", 2, "tree-gone") == "starting"
    assert write("two", 2, "tree-gone") == "ended"
