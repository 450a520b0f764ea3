"""The completion record of an activation: what its run's record proves, and nothing more."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from signal import SIGKILL, SIGTERM
from typing import Any

import msgspec

from lastout.durable import link_once, now
from lastout.evidence import events as lines
from lastout.evidence.journal import Contents
from lastout.identity import ProcessIdentity, boot_id
from lastout.outcome import Outcome, decide, identity_of
from lastout.services import layout, sentences
from lastout.services.activation import Activation, StopAsked
from lastout.services.definition import VERSION, read_versioned
from lastout.verdict import Verdict

__all__ = ["Completion", "completion_path", "conclude", "failed_to_start", "load", "publish"]


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """How an activation ended. What was not observed is None or empty.

    `ended_by` is a code of `sentences.ENDINGS`; `reason` is `completion`, `timeout`, `abort` or
    `shutdown`, or `lost`. `tree_gone`: an empty tree was observed; only then `remaining` is 0.
    """

    version: int
    service: str
    activation: str
    run: str | None = None
    record: str | None = None
    requested_at: str = ""
    requested_by: dict[str, Any] = {}
    started_at: str | None = None
    ended_at: str | None = None
    published_at: str = ""
    status: int | None = None
    """The raw wait status of the command."""
    code: int | None = None
    signal: str | None = None
    failed: bool = True
    ended_by: str = "itself"
    reason: str = "completion"
    by: str | None = None
    """Who asked for the end, where somebody did."""
    why: str = ""
    """One sentence for people."""
    tree_gone: bool = False
    stopped: tuple[dict[str, Any], ...] = ()
    stopped_count: int = 0
    remaining: int | None = None
    verdict: str = ""
    boot_id: str = ""
    root: dict[str, Any] | None = None
    supervisor: dict[str, Any] | None = None


def completion_path(state: str, name: str, activation: str) -> str:
    """Where the record of an activation is."""
    return os.path.join(layout.activation_directory(state, name, activation), "completion.json")


def load(state: str, name: str, activation: str) -> Completion | None:
    """The record, or None while it is not published. Raises NewerDefinition, ServiceError."""
    try:
        return read_versioned(completion_path(state, name, activation), Completion)
    except FileNotFoundError:
        return None


def publish(state: str, completion: Completion) -> bool:
    """Publish it, durably; False when somebody has published one before. Raises OSError."""
    path = completion_path(state, completion.service, completion.activation)
    return link_once(path, msgspec.json.format(msgspec.json.encode(completion)))


def failed_to_start(activation: Activation, why: str, asked: StopAsked | None = None) -> Completion:
    """Of an activation whose command was never executed."""
    return Completion(
        **_common(activation),
        ended_by="owner" if asked else "not-started",
        reason=asked.reason if asked else "abort",
        by=asked.by if asked else None,
        why=why,
        tree_gone=True,
        remaining=0,
        verdict="exited",
        boot_id=boot_id(),
    )


def conclude(
    activation: Activation, contents: Contents, verdict: Verdict, asked: StopAsked | None
) -> Completion:
    """What the record of the run and the verdict on it say together."""
    attempt = activation.attempts[-1]
    outcome = decide(contents.in_time_order, run=attempt.run, record=attempt.record)
    started = next((e for e in contents.events if isinstance(e, lines.Started)), None)
    gone = next((e for e in contents.events if isinstance(e, lines.TreeGone)), None)
    if started is None and any(isinstance(e, lines.Failed) for e in contents.events):
        return failed_to_start(activation, _refusal(contents))
    ended_by, reason, by = _end(outcome, verdict, asked, contents)
    code = outcome.returncode
    good = code == 0 and ended_by == "itself" and outcome.tree_gone
    return Completion(
        **_common(activation),
        started_at=_moment(started.time) if started else None,
        ended_at=_moment(gone.time) if gone else None,
        status=outcome.root_status,
        code=code if code is not None and code >= 0 else None,
        signal=_signal(code),
        failed=not good,
        ended_by=ended_by,
        reason=reason,
        by=by,
        why=_why(outcome, ended_by, verdict),
        tree_gone=outcome.tree_gone,
        stopped=tuple(_identity(one) for one in outcome.stopped),
        stopped_count=gone.stopped_count if gone else 0,
        remaining=0 if outcome.tree_gone or verdict.how == "other-boot" else None,
        verdict=verdict.kind,
        boot_id=started.boot_id if started else "",
        root=_identity(identity_of(started.root, started)) if started else None,
        supervisor=_identity(identity_of(started.front, started)) if started else None,
    )


def _common(activation: Activation) -> dict[str, Any]:
    attempt = activation.attempts[-1] if activation.attempts else None
    return {
        "version": VERSION,
        "service": activation.service,
        "activation": activation.id,
        "run": attempt.run if attempt else None,
        "record": attempt.record if attempt else None,
        "requested_at": activation.requested_at,
        "requested_by": msgspec.to_builtins(activation.requested_by),
        "published_at": now(),
    }


def _end(
    outcome: Outcome, verdict: Verdict, asked: StopAsked | None, contents: Contents
) -> tuple[str, str, str | None]:
    """Who ended it, why, and the name of who asked."""
    stop = outcome.stop
    if not outcome.tree_gone:
        if verdict.how == "other-boot":
            return "reboot", "lost", None
        if asked is not None:
            return "owner", asked.reason, asked.by
        return "supervisor-lost", "lost", None
    if stop is None:
        # Without graces the tree is killed beside the supervisor, which may see the root's end first.
        if asked is not None and outcome.returncode in (-SIGKILL, -SIGTERM):
            return "owner", asked.reason, asked.by
        return "itself", "completion", None
    if stop.trigger == "timeout":
        return "deadline", "timeout", None
    if stop.trigger == "peer-lost":
        return "supervisor-lost", "abort", None
    if asked is not None:
        return "owner", asked.reason, asked.by
    began = next(e for e in contents.in_time_order if isinstance(e, lines.StopBegan))
    sender = f"pid {began.sender.pid}, uid {began.sender.uid}" if began.sender else None
    return "signal", "shutdown" if began.sender and began.sender.pid == 1 else "abort", sender


def _why(outcome: Outcome, ended_by: str, verdict: Verdict) -> str:
    return sentences.how_it_ended(
        ended_by,
        outcome.returncode,
        None if outcome.tree_gone else verdict.sentence,
        len(outcome.stopped),
    )


def _refusal(contents: Contents) -> str:
    for event in contents.events:
        if isinstance(event, lines.Refused | lines.Failed):
            return sentences.not_started(event.message)
    return sentences.not_started("its record does not say why")


def _signal(code: int | None) -> str | None:
    if code is None or code >= 0:
        return None
    import signal

    try:
        return signal.Signals(-code).name.removeprefix("SIG")
    except ValueError:
        return str(-code)


def _identity(one: ProcessIdentity) -> dict[str, Any]:
    return one.to_record()


def _moment(time: str) -> str:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
