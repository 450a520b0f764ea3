"""What others said: the agent of its commands and turns, the owner of its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastout.evidence.claims import Claim, Grade, Reading, reference
from lastout.evidence.events import Closed, CommandRan, Event, Forced, Note, TurnEnded

__all__ = ["alone", "together"]

_REPORTED, _UNKNOWN = Grade.REPORTED, Grade.NOT_REPORTED


def alone(event: Event) -> Iterator[Claim]:
    """What one line of the owner says by itself."""
    match event:
        case CommandRan():
            yield from _command(event)
        case TurnEnded():
            yield _claim(
                "turn",
                event,
                turn=event.turn,
                status=event.status,
                commands=event.commands,
                failed=event.failed,
                unfinished=len(event.unfinished),
                detail=not (event.failed or event.unfinished),
            )
        case Closed():
            yield _claim(
                "closed", event, verdict=event.verdict, numbers={"evidence": event.evidence}
            )
        case Forced():
            count = event.detail.get("signalled_count") if isinstance(event.detail, dict) else None
            yield _claim(
                "forced",
                event,
                verdict=event.verdict,
                signalled=count if isinstance(count, int) else None,
                numbers={"detail": event.detail},
            )
        case Note():
            yield _claim(
                "note", event, text=event.text, detail=True, numbers={"detail": event.detail}
            )


def together(reading: Reading) -> Iterator[Claim]:
    """One reminder for all commands of whose end nobody gave the cause."""
    open_causes = [event for event in reading.of(CommandRan) if _cause_open(event)]
    if open_causes:
        yield Claim(
            "cause-reminder",
            _UNKNOWN,
            tuple(reference(event) for event in open_causes),
            open_causes[-1].boottime_ns,
            {"count": len({event.item for event in open_causes})},
        )


def _command(event: CommandRan) -> Iterator[Claim]:
    numbers: dict[str, Any] = {
        "item": event.item,
        "duration_ms": event.duration_ms,
        "output_chars": event.output_chars,
        "output": event.output,
        "cwd": event.cwd,
        "detail": event.detail,
    }
    if event.phase == "unfinished":
        yield _claim("command-unfinished", event, _UNKNOWN, command=event.command, numbers=numbers)
        return
    yield _claim(
        "command-background" if event.phase == "background" else "command",
        event,
        agent=event.agent,
        command=event.command,
        status=event.status,
        code=event.exit_code,
        code_from=event.exit_code_from,
        after_turn=event.after_turn,
        cause_open=_cause_open(event),
        numbers=numbers,
        detail=event.phase == "completed" and not _failed(event) and not event.after_turn,
    )
    if event.native_timeout:
        yield _claim("native-timeout", event, command=event.command, said=event.native_timeout)


def _failed(event: CommandRan) -> bool:
    return event.exit_code not in (None, 0) or event.status in ("failed", "is_error true")


def _cause_open(event: CommandRan) -> bool:
    """Whether a command failed or vanished without any native evidence of why."""
    if event.phase == "unfinished":
        return True
    return event.phase == "completed" and _failed(event) and not event.native_timeout


def _claim(
    kind: str,
    event: Event,
    grade: Grade = _REPORTED,
    *,
    numbers: dict[str, Any] | None = None,
    detail: bool = False,
    **facts: Any,
) -> Claim:
    return Claim(
        kind,
        grade,
        (reference(event),),
        event.boottime_ns,
        facts,
        {name: value for name, value in (numbers or {}).items() if value is not None},
        detail=detail,
    )
