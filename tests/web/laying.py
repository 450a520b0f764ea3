"""States that are laid, where making them for real would take a machine of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from site_of_test import Run

from lastout.evidence import journal
from lastout.evidence.events import CommandRan


def lay(state: Path, one: Run, count: int) -> list[Path]:
    """Records of one live run under other ids: its supervisors are alive, so they are live."""
    text = one.record.read_text()
    paths = []
    for number in range(count):
        other = f"{one.id[:16]}{number:06d}"
        path = one.record.with_name(f"{other}.jsonl")
        temporary = state / "laid"
        temporary.write_text(text.replace(one.id, other))
        shutil.move(temporary, path)
        paths.append(path)
    return paths


def note(path: Path, number: int, **fields: Any) -> None:
    """One more command of the agent, as an owner writes it down."""
    told = {"agent": "codex-exec", "item": f"i{number}", "command": "make", **fields}
    journal.append(path, CommandRan, path.name.removesuffix(".jsonl"), **told)


def feed_of(state: Path, count: int) -> str:
    """A job that has ended, with so many events; its id."""
    job = "20261130T000000-aaaaaa"
    directory = state / "jobs" / job
    directory.mkdir(parents=True, mode=0o700)
    at = "2026-11-30T00:00:00.000000Z"
    work = {"type": "command", "argv": ["make", "all"], "cwd": "/", "env": {}, "by": "somebody"}
    spec = {"version": 1, "id": job, "queued_at": at, "queued_ns": 1, "work": work}
    (directory / "spec.json").write_text(json.dumps(spec))
    (directory / "state.json").write_text(json.dumps({"version": 1, "state": "ended", "turn": 1}))
    result = {"version": 1, "job": job, "turn": 1, "final": True, "failed": False}
    result |= {"why": "completion", "remaining_count": 0, "ended_at": at}
    (directory / "result-1.json").write_text(json.dumps(result))
    with (directory / "feed.jsonl").open("w") as file:
        for number in range(1, count + 1):
            event = {"event": "progress", "seq": number, "at": at, "turn": 1}
            file.write(json.dumps({**event, "text": f"number {number}"}) + "\n")
    return job


def asking_job(state: Path, fields: tuple[str, ...]) -> str:
    """A job of an agent that waits for an answer; nobody runs it. Its id."""
    job = "20261130T000001-aaaaaa"
    directory = state / "jobs" / job
    (directory / "inbox").mkdir(parents=True, mode=0o700)
    at = "2026-11-30T00:00:00.000000Z"
    work = {"type": "agent", "agent": "claude", "prompt": "paint it", "cwd": "/", "by": "somebody"}
    spec = {"version": 1, "id": job, "queued_at": at, "queued_ns": 1, "work": work}
    (directory / "spec.json").write_text(json.dumps(spec))
    choices = [
        {"id": "answer", "label": "Answer"},
        {"id": "deny", "label": "No", "meaning": "deny"},
    ]
    question = {"id": "q", "kind": "input", "prompt": "How?", "choices": choices, "fields": fields}
    status = {"version": 1, "state": "running", "turn": 1, "questions": [question]}
    (directory / "state.json").write_text(json.dumps(status))
    return job
