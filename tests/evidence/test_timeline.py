"""The picture of a run, in the terminal, as SVG and as a page."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given, settings

from lastout.evidence import journal
from lastout.evidence.timeline.model import Axis, Lane, Picture, picture
from lastout.evidence.timeline.page import page
from lastout.evidence.timeline.svg import draw as draw_svg
from lastout.evidence.timeline.terminal import draw

from .records import Record
from .test_why_properties import Line, _data, records


def stopped() -> Record:
    record = (
        Record()
        .started()
        .add("stop", at=3600, trigger="requested", term_grace_ms=1000, stdin_grace_ms=0)
    )
    record.add("signalled", at=3600.001, signal="TERM", target="root-group", result="delivered")
    record.killed("TERM", at=3600.1)
    member = {"pid": 400, "start": 1, "name": "sleep"}
    record.add("leftovers", at=3600.101, count=1, members=[member])
    record.add("signalled", at=3601.01, signal="KILL", target="tree", count=1, root=False)
    return record.gone(at=3601.02, stopped_count=1, stopped=[{"pid": 400, "start": 1}])


def lane(drawn: Picture, role: str) -> Lane:
    (found,) = [one for one in drawn.lanes if one.role == role]
    return found


def test_lines_end_where_an_end_was_seen() -> None:
    drawn = picture(stopped().contents())
    assert lane(drawn, "root").label == "SIGTERM"
    assert lane(drawn, "root").end_sure
    # Nobody saw the leftover end: it was over when the tree was.
    assert not lane(drawn, "member").end_sure
    assert lane(drawn, "owner").end is None


def test_a_leftover_is_sure_only_from_when_it_was_seen() -> None:
    member = lane(picture(stopped().contents()), "member")
    assert member.begin < member.sure_from


def test_the_ladder_is_told_in_stages() -> None:
    drawn = picture(stopped().contents())
    assert [band.name for band in drawn.bands] == ["SIGTERM", "SIGKILL"]
    assert drawn.bands[0].end == drawn.bands[1].begin


def test_signals_are_arrows_from_the_keeper() -> None:
    drawn = picture(stopped().contents())
    names = [(arrow.label, drawn.lanes[arrow.target].role) for arrow in drawn.arrows]
    assert names == [("SIGTERM", "root"), ("SIGKILL", "member")]
    assert all(drawn.lanes[arrow.source or 0].role == "keeper" for arrow in drawn.arrows)


def test_a_strangers_signal_comes_from_outside() -> None:
    drawn = picture(
        Record().trace_began().started().sent("KILL", 1).killed(at=1.1).gone().contents()
    )
    (arrow,) = drawn.arrows
    assert arrow.source is None
    assert arrow.label == "SIGKILL (earlyoom 911)"


def test_who_had_ended_before_is_hit_by_nothing() -> None:
    record = Record().trace_began().started()
    tool = {"pid": 4711, "name": "pytest"}
    record.add("traced-exit", at=2, at_ns=1002 * 10**9, process=tool, who="member", signal="KILL")
    record.add("stop", at=10, trigger="timeout", term_grace_ms=1000)
    record.add("signalled", at=10.1, signal="TERM", target="members", count=1)
    record.add("signalled", at=11.1, signal="KILL", target="tree", count=1, root=True)
    drawn = picture(record.killed(at=11.05).gone(at=11.2).contents())
    assert [drawn.lanes[arrow.target].role for arrow in drawn.arrows] == ["root"]


def test_a_commands_last_word_is_no_pid() -> None:
    record = Record().started().add("command", item="a", command="sleep 300", exit_code=0)
    record.add("stop", trigger="signal", signal="TERM", sender={"pid": 300, "uid": 0})
    drawn = picture(record.exited(0).gone().contents())
    (arrow,) = [one for one in drawn.arrows if drawn.lanes[one.target].role == "front"]
    assert drawn.lanes[arrow.source or 0].role == "root"


def test_an_hour_of_quiet_does_not_hide_a_stop() -> None:
    second = 1_000_000_000
    axis = Axis([0, 3600 * second, 3600 * second + second // 10, 3601 * second])
    assert axis(3601 * second) - axis(3600 * second) > 0.3
    places = [axis(moment * second // 4) for moment in range(0, 14408, 7)]
    assert places == sorted(places)
    assert (places[0], axis(9999 * second)) == (0.0, 1.0)


def test_the_terminal_picture_fits_and_keeps_to_ascii() -> None:
    rows = list(draw(picture(stopped().contents()), width=80, unicode=False))
    assert all(row.isascii() for row in rows)
    assert all(len(row) <= 96 for row in rows)
    assert any("SIGTERM: keeper" in row for row in rows)


def test_a_record_of_nothing_draws_nothing() -> None:
    assert list(draw(picture(Record().contents()), width=80)) == ["nothing was started"]
    ET.fromstring(draw_svg(picture(Record().contents())))


def test_names_cannot_write_into_the_page() -> None:
    nasty = "<script>alert(1)</script>&\x1b[2J"
    record = Record().started(argv=[nasty]).exited(0)
    record.add("leftovers", count=1, members=[{"pid": 400, "start": 1, "name": nasty}])
    for text in (draw_svg(picture(record.contents())), page(record.contents())):
        assert "<script>" not in text
        assert "\x1b" not in text
    assert "\x1b" not in "\n".join(draw(picture(record.contents()), width=80))


@settings(max_examples=100, deadline=None)
@given(records())
def test_whatever_the_lines_are_there_is_a_picture(lines: list[Line]) -> None:
    drawn = picture(journal.parse(_data(lines)))
    ET.fromstring(draw_svg(drawn))
    assert all(row.isprintable() for row in draw(drawn, width=80, unicode=True))
