"""What became of a run, decided from its lines alone."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from lastout.evidence import events
from lastout.evidence.events import Event
from lastout.outcome import Outcome, Stop, decide

_seq = count(1)


def event(kind: type[Event], **fields: Any) -> Event:
    header = {"run": "r", "source": "keeper", "seq": next(_seq), "boottime_ns": 1, "time": "t"}
    return kind(**header, **fields)


IDENTITY = events.Identity(9, 90, 900)
STARTED = event(
    events.Started,
    front=IDENTITY, keeper=IDENTITY, root=IDENTITY, max_stop_ms=5500, boot_id="b", pidns=4,
)  # fmt: skip
EXIT_3 = event(events.RootExited, pid=9, status=3 << 8, code=3)
KILLED = event(events.RootExited, pid=9, status=9, signal="KILL")
STOP = event(events.StopBegan, trigger="requested", reason="user", by="me")
LEFTOVERS = event(events.StopBegan, trigger="root-exited")
KILL_ALL = event(events.Signalled, signal="KILL", target="tree", count=2, failed=0)
KILL_SOME = event(events.Signalled, signal="KILL", target="tree", count=2, failed=1)
GONE = event(events.TreeGone, stopped=(IDENTITY,))
UNPROVEN = event(events.TreeUnproven, remaining=(events.Remaining(9, 90, 900, kill_error="EPERM"),))


def outcome(*lines: Event) -> Outcome:
    return decide([STARTED, *lines], run="r", record="/r")


def test_root_ended_and_tree_empty_is_exited() -> None:
    found = outcome(EXIT_3, GONE)
    assert (found.verdict, found.returncode, found.root_status) == ("exited", 3, 768)
    assert (found.root_gone, found.tree_gone, found.stop) == (True, True, None)
    assert found.run == "r"
    assert found.record == "/r"


def test_ended_by_a_signal_is_a_negative_status_as_in_subprocess() -> None:
    assert outcome(STOP, KILLED, GONE).returncode == -9


def test_a_stop_says_who_asked() -> None:
    assert outcome(STOP, KILLED, GONE).stop == Stop("requested", "user", "me")


def test_stopping_the_leftovers_is_no_stop_of_the_root() -> None:
    found = outcome(EXIT_3, LEFTOVERS, GONE)
    assert found.stop is None
    assert found.verdict == "exited"
    assert [identity.pid for identity in found.stopped] == [9]
    assert found.stopped[0].boot_id == "b"
    assert found.stopped[0].pidns == 4


def test_root_gone_but_the_tree_not_seen_to_end_is_killed() -> None:
    for lines in ([EXIT_3], [STOP, KILLED, UNPROVEN], [STOP, KILL_ALL, UNPROVEN]):
        assert outcome(*lines).verdict == "killed"
        assert not outcome(*lines).tree_gone
    assert outcome(STOP, KILL_ALL, UNPROVEN).root_gone is False


def test_a_kill_that_did_not_reach_everybody_is_unproven() -> None:
    found = outcome(STOP, KILL_SOME, UNPROVEN)
    assert found.verdict == "unproven"
    assert found.returncode is None
    assert [identity.pid for identity in found.remaining] == [9]


def test_nothing_but_a_start_is_unproven() -> None:
    found = outcome()
    assert (found.verdict, found.returncode, found.root_gone) == ("unproven", None, False)


def test_the_late_end_of_a_tree_is_its_end() -> None:
    assert outcome(STOP, KILLED, UNPROVEN, GONE).verdict == "exited"


@pytest.mark.parametrize("lines", [[], [EXIT_3], [GONE], [KILL_ALL], [UNPROVEN], [STOP, KILL_SOME]])
def test_exited_is_never_said_without_both_ends(lines: list[Event]) -> None:
    assert decide(lines, run="r").verdict != "exited"


def test_a_status_that_nobody_saw_is_not_invented() -> None:
    unseen = msgspec.structs.replace(EXIT_3, status=None, code=None)
    found = outcome(unseen, GONE)
    assert (found.returncode, found.root_status) == (None, None)
    assert found.verdict == "exited"
