"""No sequence of events makes `why` claim more than the events say.

Random records, with contradictions, gaps, foreign writers and garbage, against an oracle that is
written apart from the code: for each kind of claim what its named lines must say (or, where it
rests on an absence, what the whole record must not have).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastout.evidence import journal
from lastout.evidence.claims import Claim, Grade
from lastout.evidence.why import story
from lastout.evidence.words import KINDS, sentence

from .random_records import EVENTS, Line, records
from .records import BY_OWNER, TRACER


def _data(lines: list[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _claims(lines: list[Line]) -> tuple[Claim, ...]:
    return story(journal.parse(_data(lines))).claims


def _named(claim: Claim, lines: list[Line]) -> list[Line]:
    return [line for line in lines if f"{line['from']}:{line['seq']}" in claim.events]


# The oracle.


def _in_place(line: Line) -> bool:
    if line["event"] in TRACER:
        return bool(line["from"] == "tracer")
    if line["event"] in BY_OWNER:
        return bool(line["from"] == "owner")
    return line["from"] in ("front", "keeper")


def _one(lines: list[Line], event: str, **fields: Any) -> bool:
    return any(
        line["event"] == event and all(line.get(name) == value for name, value in fields.items())
        for line in lines
    )


def _reaches_root(line: Line, signal: str, at: int, lines: list[Line]) -> bool:
    if line["event"] != "signalled" or line["signal"] != signal or not _in_place(line):
        return False
    if line.get("result", "delivered") != "delivered":
        return False
    if line["target"] in ("root", "root-group"):
        return bool(line["boottime_ns"] <= at)
    return (
        line["target"] == "tree"
        and line.get("count") != 0
        and line.get("root") is not False
        and any(o["event"] == "stop" and o["boottime_ns"] <= at for o in lines if _in_place(o))
    )


def _end(lines: list[Line]) -> Line:
    return next(line for line in lines if line["event"] == "root-exited")


def _own_signal(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    end = _end(named)
    return any(
        _reaches_root(line, end["signal"], end["boottime_ns"], lines) for line in named
    ) and (
        claim.facts["root_named"] is False
        or any(
            line.get("root") is True or line.get("target") in ("root", "root-group")
            for line in named
        )
    )


def _no_own_signal(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    end = _end(named)
    mine = [line for line in lines if line["from"] in ("front", "keeper")]
    numbers: dict[str, set[int]] = {}
    for line in mine:
        numbers.setdefault(line["from"], set()).add(line["seq"])
    return (
        not any(_reaches_root(line, end["signal"], end["boottime_ns"], lines) for line in lines)
        and not (end["signal"] == "KILL" and _one([o for o in lines if _in_place(o)], "forced"))
        and not _one(lines, "dropped")
        and all(max(found) == len(found) for found in numbers.values())
        and mine[-1]["event"] in ("refused", "failed", "tree-gone", "tree-unproven")
    )


def _sender(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    end = _end(named)
    return any(
        line["event"] == "traced-signal"
        and line["who"] == "root"
        and line["signal"] == end["signal"] == claim.facts["signal"]
        and line["target"]["pid"] == end["pid"]
        and line["result"] == "delivered"
        and line["at_ns"] <= end["boottime_ns"]
        and (claim.kind == "sender") == (line["by"] != "kernel")
        for line in named
    )


def _sender_oom(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    return _sender(claim, named, lines) and any(
        line["event"] == "traced-oom" and line["victim"]["pid"] == _end(named)["pid"]
        for line in named
    )


def _none_seen(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    end = _end(named)
    return (
        _one(named, "trace-began", covers="whole-run", sees_senders=True)
        and _one(named, "trace-ended", lost=0)
        and not any(
            line["event"] == "traced-signal"
            and _in_place(line)
            and line["signal"] == end["signal"]
            and line["who"] == "root"
            and line["target"]["pid"] == end["pid"]
            and line["result"] == "delivered"
            and line["at_ns"] <= end["boottime_ns"]
            for line in lines
        )
    )


def _no_end(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    mine = [line for line in lines if line["from"] in ("front", "keeper")]
    return not mine or not (
        mine[-1]["event"] in ("refused", "failed", "tree-gone", "tree-unproven")
        and _in_place(mine[-1])
    )


def _counters(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
    begin = next(line for line in named if line.get("when") == "begin")
    end = next(line for line in named if line.get("when") == "end")
    between = begin["boottime_ns"] <= _end(named)["boottime_ns"] <= end["boottime_ns"]
    machine, group = claim.facts["machine"], claim.facts["cgroup"]
    return (
        between
        and machine in (None, (end.get("machine") or 0) - (begin.get("machine") or 0))
        and (group is None or begin.get("cgroup") == end.get("cgroup"))
    )


def _says(event: str, *names: str) -> Callable[[Claim, list[Line], list[Line]], bool]:
    """One named line of this kind, and the facts are its fields."""

    def check(claim: Claim, named: list[Line], lines: list[Line]) -> bool:
        (line,) = named
        return line["event"] == event and all(claim.facts[n] == line.get(n) for n in names)

    return check


ORACLE: dict[str, Callable[[Claim, list[Line], list[Line]], bool]] = {
    "started": _says("started", "argv"),
    "root-killed": _says("root-exited", "signal"),
    "root-exited": _says("root-exited", "code"),
    "root-ended-somehow": _says("root-exited"),
    "code-looks-like": _says("root-exited", "code"),
    "stop": _says("stop", "trigger"),
    "stop-again": _says("stop-again", "trigger", "shortened"),
    "stop-reason": _says("stop", "reason", "by"),
    "signalled": _says("signalled", "signal", "target", "result"),
    "forwarded": _says("signalled", "signal", "target"),
    "leftovers": _says("leftovers", "count"),
    "others-stopped": _says("others-stopped", "interrupted"),
    "tree-gone": _says("tree-gone"),
    "tree-unproven": _says("tree-unproven"),
    "takeover": _says("takeover", "why"),
    "dropped": _says("dropped", "lines"),
    "closed": _says("closed", "verdict"),
    "forced": _says("forced", "verdict"),
    "note": _says("note", "text"),
    "turn": _says("turn", "status"),
    "command": _says("command", "command"),
    "command-background": _says("command", "command"),
    "command-unfinished": _says("command", "command"),
    "native-timeout": _says("command", "command"),
    "traced-signal": _says("traced-signal", "signal", "who", "by", "result"),
    "traced-oom": _says("traced-oom", "who"),
    "own-signal": _own_signal,
    "own-kill-outside": lambda claim, named, lines: (
        _end(named)["signal"] == "KILL" and _one(named, "forced")
    ),
    "no-own-signal": _no_own_signal,
    "sender": _sender,
    "sender-kernel": _sender,
    "sender-oom": _sender_oom,
    "sender-none-seen": _none_seen,
    "oom-counters": _counters,
    "no-end": _no_end,
    "keeper-lost-kill": lambda claim, named, lines: (
        _end(named)["signal"] == "KILL"
        and (_one(named, "takeover", why="keeper-lost") or _one(named, "stop", which="keeper"))
    ),
    "closed-after-tree-gone": lambda claim, named, lines: (
        _one(named, "tree-gone") and _one(named, "closed")
    ),
    "cause-reminder": lambda claim, named, lines: all(
        line["event"] == "command"
        and (line["phase"] == "unfinished" or not line.get("native_timeout"))
        for line in named
    ),
}

SUPERVISOR_KINDS = set(EVENTS) - set(TRACER) - set(BY_OWNER)
many = settings(max_examples=300, deadline=None)


@many
@given(records())
def test_every_claim_is_what_its_lines_say(lines: list[Line]) -> None:
    for claim in _claims(lines):
        named = _named(claim, lines)
        assert len(named) == len(set(claim.events)), "a claim names lines that are there"
        assert all(_in_place(line) for line in named) or claim.kind in (
            "misplaced-line",
            "unknown-line",
        )
        check = ORACLE.get(claim.kind)
        if check is not None:
            assert check(claim, named, lines), claim


@many
@given(records())
def test_a_claim_needs_no_more_than_the_lines_that_it_names(lines: list[Line]) -> None:
    for claim in _claims(lines):
        if not claim.whole:
            again = _claims(_named(claim, lines))
            assert any(
                (one.kind, one.grade, one.facts) == (claim.kind, claim.grade, claim.facts)
                for one in again
            ), claim


@many
@given(records())
def test_without_its_lines_a_claim_is_not_made(lines: list[Line]) -> None:
    for claim in _claims(lines):
        named = _named(claim, lines)
        if claim.whole or not named:
            continue
        rest = [line for line in lines if line not in named]
        assert not any(
            one.kind == claim.kind and one.events == claim.events for one in _claims(rest)
        )


@many
@given(records())
def test_grades_come_from_who_wrote_the_lines(lines: list[Line]) -> None:
    for claim in _claims(lines):
        kinds = {line["event"] for line in _named(claim, lines)}
        match claim.grade:
            case Grade.OBSERVED:
                assert kinds & SUPERVISOR_KINDS
            case Grade.TRACED:
                assert kinds & set(TRACER)
            case Grade.REPORTED:
                assert kinds & (set(BY_OWNER) | {"stop", "stop-again"})
            case Grade.NOT_REPORTED:
                text = sentence(claim.kind, claim.facts)
                assert any(
                    word in text
                    for word in (
                        "not reported",
                        "not known",
                        "never reported",
                        "No cause",
                        "no cause",
                        "was skipped",
                        "was not read",
                        "was not used",
                    )
                ), text


@many
@given(records(), st.binary(max_size=40), st.integers(0, 400))
def test_sentences_are_plain_text_whatever_the_file_holds(
    lines: list[Line], garbage: bytes, cut: int
) -> None:
    data = _data(lines)
    told = story(journal.parse(data[:cut] + garbage + data[cut:]))
    for claim in told.claims:
        text = sentence(claim.kind, claim.facts)
        assert text.isprintable()
        assert text.endswith((".", "`")) or claim.kind == "note"
    assert all(claim in told.claims for claim in told.headline)


@many
@given(records())
def test_strong_words_need_strong_lines(lines: list[Line]) -> None:
    for claim in _claims(lines):
        text = sentence(claim.kind, claim.facts)
        if "OOM killer chose" in text:
            assert _one(_named(claim, lines), "traced-oom")
        if claim.kind == "sender" and "earlyoom" in text:
            assert _one(lines, "traced-signal")
        if "Nothing" in text and "alive any more" in text:
            assert _one(_named(claim, lines), "tree-gone")


def test_the_oracle_knows_what_it_judges() -> None:
    assert set(ORACLE) <= KINDS


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_random_lines_are_real_lines(kind: str) -> None:
    """Strategies must make lines that decode as what they are, or the properties test nothing."""

    @settings(max_examples=20, deadline=None)
    @given(EVENTS[kind])
    def decodes(fields: Line) -> None:
        line = {
            "v": 1, "event": kind, "run": "r", "from": "x", "seq": 1, "boottime_ns": 1, "time": "t",
            **fields,
        }  # fmt: skip
        (event,) = journal.parse(_data([line])).events
        assert (type(event).__name__ == "Unknown") == (kind == "something-new")

    decodes()
