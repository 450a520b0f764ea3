"""Records made up for tests: lines from short descriptions, with the header filled in."""

from __future__ import annotations

import json
from typing import Any

from lastout.evidence import journal
from lastout.evidence.claims import Claim, Story
from lastout.evidence.why import story
from lastout.evidence.words import sentence

SECOND = 1_000_000_000
ROOT, FRONT, KEEPER, OWNER = (
    {"pid": pid, "start": pid * 10, "inode": pid * 100} for pid in (300, 200, 201, 100)
)
TRACER = (
    "trace-began",
    "traced-signal",
    "traced-oom",
    "traced-exit",
    "oom-counters",
    "trace-ended",
)
BY_OWNER = ("prepared", "closed", "command", "turn", "forced", "note")


class Record:
    """Lines, each a second after the one before unless `at` (seconds) says otherwise."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._at = 1000.0

    def add(
        self, event: str, *, at: float | None = None, writer: str = "", **fields: Any
    ) -> Record:
        source = writer or (
            "tracer" if event in TRACER else "owner" if event in BY_OWNER else "keeper"
        )
        self._numbers[source] = self._numbers.get(source, 0) + 1
        self._at = 1000.0 + at if at is not None else self._at + 1
        self.lines.append(
            {
                "v": 1,
                "event": event,
                "run": "20261130T120000-abcdef",
                "from": source,
                "seq": self._numbers[source],
                "boottime_ns": int(self._at * SECOND),
                "time": "2026-11-30T12:00:00.000000Z",
                **fields,
            }
        )
        return self

    def started(self, **fields: Any) -> Record:
        return self.add(
            "started",
            **{
                "at": 0,
                "front": FRONT,
                "keeper": KEEPER,
                "root": ROOT,
                "owner": OWNER,
                "owner_watch": "told",
                "argv": ["agent", "serve"],
                "cwd": "/work",
                "host": "h",
                "boot_id": "b",
                "pidns": 1,
                "max_stop_ms": 5500,
                "key": None,
                "epoch": None,
                **fields,
            },
        )

    def killed(self, signal: str = "KILL", at: float | None = None) -> Record:
        return self.add(
            "root-exited", at=at, pid=300, status=9, code=None, signal=signal, core=False
        )

    def exited(self, code: int = 0, at: float | None = None) -> Record:
        return self.add(
            "root-exited", at=at, pid=300, status=code << 8, code=code, signal=None, core=False
        )

    def gone(self, at: float | None = None, **fields: Any) -> Record:
        return self.add("tree-gone", at=at, **{"proof": "echild", "stopped_count": 0, **fields})

    def trace_began(self, **fields: Any) -> Record:
        return self.add(
            "trace-began",
            **{
                "at": -1,
                "how": "tracefs",
                "covers": "whole-run",
                "sees_senders": True,
                "sees_exit_codes": True,
                **fields,
            },
        )

    def sent(self, signal: str, at: float, **fields: Any) -> Record:
        """The tracer saw a signal for the root."""
        return self.add(
            "traced-signal",
            **{
                "at": at,
                "at_ns": int((1000 + at) * SECOND),
                "signal": signal,
                "target": {**ROOT, "name": "agent"},
                "who": "root",
                "by": "process",
                "sender": {"pid": 911, "start": 42, "name": "earlyoom"},
                "result": "delivered",
                **fields,
            },
        )

    def data(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def contents(self) -> journal.Contents:
        return journal.parse(self.data())

    def story(self) -> Story:
        return story(self.contents())

    def kinds(self) -> list[str]:
        return [claim.kind for claim in self.story().claims]

    def claim(self, kind: str) -> Claim:
        (found,) = [claim for claim in self.story().claims if claim.kind == kind]
        return found

    def says(self, kind: str) -> str:
        claim = self.claim(kind)
        return sentence(claim.kind, claim.facts)

    def headline(self) -> str:
        return " ".join(sentence(claim.kind, claim.facts) for claim in self.story().headline)
