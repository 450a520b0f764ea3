"""Runs in `logging`: events as sentences, or as JSON for programs that read logs.

handler.setFormatter(RunFormatter())
async for event in process.events():
    log_event(logger, event)
"""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec

from lastout.evidence.claims import Claim
from lastout.evidence.events import Event, encode
from lastout.evidence.journal import Contents
from lastout.evidence.why import story
from lastout.evidence.words import sentence

__all__ = ["RunFormatter", "log_event", "log_story"]

_LEVELS = {
    "tree-unproven": logging.ERROR,
    "not-started": logging.ERROR,
    "no-end": logging.WARNING,
    "root-killed": logging.WARNING,
    "leftovers": logging.WARNING,
    "takeover": logging.WARNING,
    "dropped": logging.WARNING,
    "command-unfinished": logging.WARNING,
}


class RunFormatter(logging.Formatter):
    """Formats log records that `log_event` and `log_story` made; others as any formatter does.

    With `as_json` every record becomes one JSON object a line, with `run`, `grade` and, where there
    is one, the whole event.
    """

    def __init__(self, fmt: str | None = None, *, as_json: bool = False, **more: Any) -> None:
        super().__init__(fmt or "%(asctime)s %(levelname)s %(run)s %(message)s", **more)
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """One line for a run's record; a record that has no run gets `-`."""
        if not hasattr(record, "run"):
            record.__dict__["run"] = "-"
        if not self._json:
            return super().format(record)
        document: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "run": record.__dict__["run"],
        }
        for name in ("kind", "grade", "lines"):
            if hasattr(record, name):
                document[name] = getattr(record, name)
        event = getattr(record, "lastout_event", None)
        if isinstance(event, Event):
            document["event"] = msgspec.json.decode(encode(event))
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def log_event(logger: logging.Logger, event: Event) -> None:
    """Log what one event tells by itself, each claim as a line."""
    # A record of one line: what needs others is not said yet, and nothing is said to be missing.
    alone = story(Contents(events=[event]))
    for claim in alone.claims:
        if not claim.whole and not claim.detail:
            _log(logger, event.run, claim, event)


def log_story(logger: logging.Logger, contents: Contents) -> None:
    """Log the whole story of a run that is over."""
    told = story(contents)
    for claim in told.claims:
        if not claim.detail:
            _log(logger, told.run, claim, None)


def _log(logger: logging.Logger, run: str, claim: Claim, event: Event | None) -> None:
    extra = {
        "run": run,
        "kind": claim.kind,
        "grade": claim.grade.value,
        "lines": list(claim.events),
        "lastout_event": event,
    }
    text = sentence(claim.kind, claim.facts)
    logger.log(_LEVELS.get(claim.kind, logging.INFO), text, extra=extra)
