"""Which records may go: by age, number and size, and never one that somebody may still need.

`decide` is pure: rows and a policy in, a plan out. A record is kept, whatever the policy says,
while its run is live, unproven, of unknown end, or held. `prune` reads each file again before it
goes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lastout.evidence import journal
from lastout.evidence.index import Row
from lastout.evidence.summary import summarise

__all__ = [
    "Plan",
    "Policy",
    "decide",
    "held",
    "hold",
    "parse_age",
    "parse_size",
    "prune",
    "release",
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_HOLD = ".hold"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is too much. None is no limit; a run counts from its end."""

    max_age_s: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes, with the reason, and what stays only because it is protected."""

    remove: tuple[tuple[Row, str], ...]
    protected: tuple[tuple[Row, str], ...]


def decide(
    rows: Iterable[Row],
    policy: Policy,
    *,
    now_us: int,
    holds: Collection[str] = (),
    gone_boots: Callable[[str], bool] = lambda boot_id: False,
) -> Plan:
    """The plan for these runs. `gone_boots` says of a boot id that it is surely over.

    A run of an earlier boot cannot be alive, so a record without an end may go once its machine
    has started again; until then nobody knows, and it stays.
    """
    remove: list[tuple[Row, str]] = []
    protected: list[tuple[Row, str]] = []
    kept = kept_bytes = 0
    for row in sorted(rows, key=_when, reverse=True):
        reason = _too_much(row, policy, now_us, kept, kept_bytes)
        shield = _shield(row, holds, gone_boots)
        if reason and not shield:
            remove.append((row, reason))
            continue
        if reason and shield:
            protected.append((row, shield))
        kept += 1
        kept_bytes += row.size
    return Plan(tuple(remove), tuple(protected))


def prune(plan: Plan, holds: Callable[[str], bool]) -> tuple[list[Row], list[tuple[Row, str]]]:
    """Carry out a plan: (removed, left with the reason).

    Each record is read again first: a run that was started under the same name, a line that came
    late or a hold that was set meanwhile keep it.
    """
    removed: list[Row] = []
    left: list[tuple[Row, str]] = []
    for row, _ in plan.remove:
        try:
            found = summarise(journal.read(row.path))
            if holds(row.run):
                left.append((row, "held"))
            elif (found.state, found.boot_id) != (row.state, row.boot_id):
                left.append((row, "it has changed"))
            else:
                os.unlink(row.path)
                removed.append(row)
        except FileNotFoundError:
            removed.append(row)
        except OSError as error:
            left.append((row, str(error)))
    for directory in {os.path.dirname(row.path) for row in removed}:
        try:
            os.rmdir(directory)
        except OSError:
            pass  # other runs are in it
    return removed, left


def hold(path: str | os.PathLike[str]) -> None:
    """Keep this record until it is released, whatever the policy says."""
    os.close(os.open(_mark(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def release(path: str | os.PathLike[str]) -> bool:
    """Let this record go its way again; whether it was held."""
    try:
        os.unlink(_mark(path))
    except FileNotFoundError:
        return False
    return True


def held(path: str | os.PathLike[str]) -> bool:
    """Whether this record is held."""
    return os.path.exists(_mark(path))


def parse_age(text: str) -> float:
    """Seconds of an age like `90d`, `12h`, `30m`. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower())
    if not found:
        raise ValueError(f"an age is a number with s, m, h, d or w, like 90d, not {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def parse_size(text: str) -> int:
    """Bytes of a size like `500M` or `2G`. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?", text.strip().lower())
    if not found:
        raise ValueError(f"a size is a number with k, M or G, like 500M, not {text!r}")
    return int(float(found[1]) * _SIZES[found[2]])


def now_us() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def _mark(path: str | os.PathLike[str]) -> str:
    return os.fspath(path).removesuffix(".jsonl") + _HOLD


def _when(row: Row) -> int:
    return row.ended_us or row.began_us or 0


def _too_much(row: Row, policy: Policy, now_us: int, kept: int, kept_bytes: int) -> str:
    # A record without a time is as old as can be.
    age_s = (now_us - _when(row)) / 1e6
    if policy.max_age_s is not None and age_s > policy.max_age_s:
        return "age"
    if policy.max_count is not None and kept >= policy.max_count:
        return "count"
    if policy.max_bytes is not None and kept_bytes + row.size > policy.max_bytes:
        return "size"
    return ""


def _shield(row: Row, holds: Collection[str], gone_boots: Callable[[str], bool]) -> str:
    if row.run in holds:
        return "held"
    if row.verdict == "unproven":
        return "unproven"
    if row.state in ("ended", "not-started"):
        return ""
    if row.boot_id and gone_boots(row.boot_id):
        return ""
    return "unproven" if row.state == "unproven" else "live, or its end is not known"
