"""What Claude Code leaves on disk: who is live in a session, and what the session's transcript has.

Nothing is written here. A session record names its process by pid and start time, so that a
recycled pid is no writer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lastout.agents.adapter import Writer
from lastout.agents.holders import live_writer
from lastout.identity import pidns

__all__ = ["config_dir", "live_writers", "mark_before", "transcript", "transcript_has"]


def config_dir(env: Mapping[str, str]) -> Path:
    """Where this Claude keeps its files."""
    given = env.get("CLAUDE_CONFIG_DIR")
    return Path(given) if given else Path(env.get("HOME", "~")).expanduser() / ".claude"


def live_writers(config: Path, session: str) -> Iterator[Writer]:
    """The live processes that say they are in this session."""
    here = f"pid:[{pidns()}]"
    for path in config.glob("sessions/*.json"):
        record = _object(path)
        pid, started, domain = (
            record.get("pid"),
            record.get("procStart"),
            str(record.get("pidDomain", "")),
        )
        if record.get("sessionId") != session or not isinstance(pid, int):
            continue
        if "pid:[" in domain and not domain.endswith(here):
            continue  # of another pid namespace: its number means another process here
        found = live_writer(
            pid, int(started) if isinstance(started, str) and started.isdigit() else None
        )
        if found is not None:
            yield found


def transcript(config: Path, session: str) -> Path | None:
    """The session's file, in whichever project it is."""
    return next(iter(config.glob(f"projects/*/{session}.jsonl")), None)


def transcript_has(config: Path, session: str, identity: str) -> bool | None:
    """Whether a user message with this uuid is in the transcript; None when it cannot be read."""
    path = transcript(config, session)
    if path is None:
        return False
    try:
        return any(entry.get("uuid") == identity for entry in _entries(path))
    except OSError:
        return None


def mark_before(config: Path, session: str, identity: str) -> str | None:
    """The message before this one, to which a rewind goes back; None when it is the first.

    Raises LookupError when the transcript does not have it.
    """
    path = transcript(config, session)
    entries = (
        {str(entry["uuid"]): entry for entry in _entries(path) if entry.get("uuid")} if path else {}
    )
    if identity not in entries:
        raise LookupError(f"the session has no message {identity}")
    parent = entries[identity].get("parentUuid")
    while parent is not None and parent in entries:
        if entries[parent].get("type") in ("assistant", "user"):
            return str(parent)
        parent = entries[parent].get("parentUuid")
    return None


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # the line that is being written, or that a crash cut off
            if isinstance(entry, dict):
                yield entry


def _object(path: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def environment(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """The environment that the agent will see."""
    return env if env is not None else os.environ
