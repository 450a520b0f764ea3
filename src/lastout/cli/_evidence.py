"""What the commands about records share: finding one, and telling times and stories."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from lastout.cli._complete import run_ids
from lastout.evidence.claims import Claim, Story
from lastout.evidence.words import sentence

__all__ = ["RUN", "document", "local", "moment", "paragraphs", "record"]

RUN = click.argument("run", metavar="RUN", shell_complete=run_ids)


def record(run: str, state: str | None) -> Path:
    """The record that is meant. Raises NoSuchRun or OSError."""
    from lastout.evidence.find import find

    return find(run, state)


def document(story: Story) -> dict[str, Any]:
    """A story for programs."""
    return {
        "run": story.run,
        "headline": [sentence(claim.kind, claim.facts) for claim in story.headline],
        "claims": [_claim(claim, story.began_ns) for claim in story.claims],
    }


def paragraphs(story: Story, verbose: bool, width: int | None = None) -> Iterator[str]:
    """A story for people: time, grade, sentence; with `verbose` everything behind it."""
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 110)
    for claim in story.claims:
        if claim.detail and not verbose:
            continue
        at = _seconds(claim, story.began_ns)
        when = "" if at is None else f"{at:+.3f}s"
        head = f"{when:>11}  {claim.grade.value:<12}  "
        yield textwrap.fill(
            sentence(claim.kind, claim.facts),
            width,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )
        if verbose:
            yield from _behind(claim, len(head), width)


def moment(text: str) -> int:
    """Microseconds since the epoch of `2026-11-30T12:00`, `12:00` or `2h` (ago), or ValueError."""
    from lastout.evidence.retention import parse_age

    now = datetime.now().astimezone()
    try:
        return int((now - timedelta(seconds=parse_age(text))).timestamp() * 1_000_000)
    except ValueError:
        pass
    try:
        if "-" not in text:
            clock = datetime.strptime(text, "%H:%M").time()
            found = datetime.combine(now.date(), clock, now.tzinfo)
        else:
            found = datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(
            f"a time is like 2h (ago), 14:30 (today) or 2026-11-30T14:30, not {text!r}"
        ) from None
    return int(found.timestamp() * 1_000_000)


def local(microseconds: int | None) -> str:
    """A time as people read it, in the local zone."""
    if microseconds is None:
        return "-"
    found = datetime.fromtimestamp(microseconds / 1e6, UTC).astimezone()
    return found.strftime("%Y-%m-%d %H:%M:%S")


def _claim(claim: Claim, began_ns: int | None) -> dict[str, Any]:
    return {
        "kind": claim.kind,
        "grade": claim.grade.value,
        "sentence": sentence(claim.kind, claim.facts),
        "at_s": _seconds(claim, began_ns),
        "events": list(claim.events),
        "whole_record": claim.whole,
        "facts": claim.facts,
        "numbers": claim.numbers,
    }


def _seconds(claim: Claim, began_ns: int | None) -> float | None:
    if claim.at_ns is None or began_ns is None:
        return None
    return round((claim.at_ns - began_ns) / 1e9, 6)


def _behind(claim: Claim, indent: int, width: int) -> Iterator[str]:
    from lastout.evidence.words import visible

    events = ", ".join(claim.events) or "no line"
    lines = [f"from {events}" + (" and what the record does not have" if claim.whole else "")]
    lines += [f"{name}: {visible(value)}" for name, value in claim.numbers.items()]
    for line in lines:
        yield textwrap.fill(
            line, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)
        )
