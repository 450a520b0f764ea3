"""A run's story for the page: the claims with their grades, the commands, the picture, the lines."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from typing import Any, Final

import msgspec

from lastout.evidence import journal
from lastout.evidence.claims import Claim, Reading
from lastout.evidence.events import CommandRan, Event, NotALine, Started, decode, encode
from lastout.evidence.journal import Contents
from lastout.evidence.now import now
from lastout.evidence.timeline.model import picture
from lastout.evidence.timeline.svg import draw
from lastout.evidence.why import story
from lastout.evidence.words import sentence
from lastout.identity import Alive
from lastout.web import words
from lastout.web.lines import Shelf
from lastout.web.plain import clean, command, plain
from lastout.web.view import wall_ms

__all__ = ["LARGEST", "Stories", "line_of", "lines_of"]

_MOST_CLAIMS: Final = 1000
_MOST_COMMANDS: Final = 200
_KEPT: Final = 8
_TEXT: Final = 400
_HEADER: Final = ("v", "event", "run", "from", "seq", "boottime_ns", "time")

LARGEST: Final = 32 << 20
"""The story of a larger record (bytes) takes too long for a page."""
_TOO_LARGE: Final[dict[str, Any]] = {
    "run": "",
    "live": False,
    "facts": None,
    "headline": [words.TOO_LARGE],
    "claims": [],
    "claims_omitted": 0,
    "commands": [],
    "commands_omitted": 0,
}

_encode = msgspec.json.Encoder().encode


class Stories:
    """Stories that were told last, as long as their records say the same. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], tuple[bytes, bytes]] = OrderedDict()

    def story(self, path: str) -> bytes:
        """The story of a record, as JSON. Raises OSError."""
        return self._both(path)[0]

    def timeline(self, path: str) -> bytes:
        """The picture of a record, as SVG. Raises OSError."""
        return self._both(path)[1]

    def _both(self, path: str) -> tuple[bytes, bytes]:
        found = os.stat(path)
        key = (path, found.st_size, found.st_mtime_ns)
        with self._lock:
            if key in self._kept:
                return self._kept[key]
        if found.st_size > LARGEST:
            return _encode(_TOO_LARGE), b""
        contents = journal.read(path)
        told = _encode(_story(contents)), draw(picture(contents)).encode("utf-8", "replace")
        if contents.final is not None:
            # One that goes on also tells who is alive at this moment.
            with self._lock:
                self._kept[key] = told
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return told


def _story(contents: Contents) -> dict[str, Any]:
    told, present = story(contents), now(contents)
    claims, headline = ([*part, *present] for part in (told.claims, told.headline))
    live = any(_supervised(one) for one in present)
    if live:
        # A live run has no last word yet, and who looks at it knows that.
        claims, headline = (
            [one for one in part if one.kind != "no-end"] for part in (claims, headline)
        )
    reading = Reading(contents)
    commands = reading.of(CommandRan)
    return {
        "run": plain(told.run),
        "live": live,
        "facts": _facts(reading.first(Started)),
        "headline": [_sentence(one) for one in headline],
        "claims": [_claim(one, told.began_ns) for one in claims[-_MOST_CLAIMS:]],
        "claims_omitted": max(0, len(claims) - _MOST_CLAIMS),
        "commands": [_command(one, told.began_ns) for one in commands[-_MOST_COMMANDS:]],
        "commands_omitted": max(0, len(commands) - _MOST_COMMANDS),
    }


def _supervised(claim: Claim) -> bool:
    alive = {one["role"] for one in claim.facts.get(Alive.YES.value, ())}
    return not alive.isdisjoint(("front", "keeper"))


def _facts(started: Started | None) -> dict[str, Any] | None:
    if started is None:
        return None
    owner = started.owner or started.parent
    return {
        "command": command(started.argv, 4000),
        "cwd": started.cwd and plain(started.cwd),
        "owner": owner.pid if owner else None,
        "owner_watch": plain(started.owner_watch),
        "root": started.root.pid,
        "front": started.front.pid,
        "keeper": started.keeper.pid,
        "contain": plain(started.contain),
        "host": plain(started.host),
        "began": wall_ms(started.time),
        "max_stop_ms": started.max_stop_ms,
        "timeout_ms": started.timeout_ms,
        "version": plain(started.version),
    }


def _sentence(claim: Claim) -> str:
    return plain(sentence(claim.kind, claim.facts))


def _claim(claim: Claim, began_ns: int | None) -> dict[str, Any]:
    return {
        "at": _seconds(claim.at_ns, began_ns),
        "grade": claim.grade.value,
        "sentence": _sentence(claim),
        "detail": claim.detail,
        "events": ", ".join(claim.events),
    }


def _command(one: CommandRan, began_ns: int | None) -> dict[str, Any]:
    return {
        "at": _seconds(one.boottime_ns, began_ns),
        "command": plain(one.command or ""),
        "phase": plain(one.phase),
        "status": one.status and plain(one.status),
        "code": one.exit_code,
        "took": one.duration_ms,
        "output": plain(one.output or "", lines=True),
        "chars": one.output_chars,
        "late": one.after_turn,
    }


def _seconds(at_ns: int | None, began_ns: int | None) -> float | None:
    return None if at_ns is None or began_ns is None else round((at_ns - began_ns) / 1e9, 4)


def lines_of(shelf: Shelf, path: str, first: int, count: int) -> dict[str, Any]:
    """A page of a record's lines, each on one row. Raises OSError."""
    lines = shelf.get(path)
    found, total = lines.page(first, count)
    head, _ = lines.page(0, 16) if first else (found[:16], 0)
    began = next((one.boottime_ns for one in map(_decoded, head) if isinstance(one, Started)), None)
    return {"total": total, "first": first, "lines": [_row(line, began) for line in found]}


def line_of(shelf: Shelf, path: str, number: int) -> dict[str, Any]:
    """One line of a file of JSON lines, whole and spread out. Raises OSError."""
    found, _ = shelf.get(path).page(number, 1)
    if not found:
        return {"text": ""}
    try:
        text = json.dumps(clean(json.loads(found[0])), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = plain(found[0].decode("utf-8", "replace"))
    return {"text": text}


def _decoded(line: bytes) -> Event | None:
    try:
        return decode(line)
    except NotALine:
        return None


def _row(line: bytes, began: int | None) -> dict[str, Any]:
    event = _decoded(line)
    if event is None:
        text = plain(line[:_TEXT].decode("utf-8", "replace"))
        return {"at": None, "from": "?", "event": "", "text": text}
    fields = json.loads(encode(event))
    parts = [
        f"{name}={value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if name not in _HEADER and value not in (None, [], {}, False, "")
    ]
    return {
        "at": _seconds(event.boottime_ns, began),
        "from": plain(event.source),
        "event": plain(fields.get("event", "")),
        "text": plain(" ".join(parts)[:_TEXT]),
    }
