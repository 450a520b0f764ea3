"""Deleting ended jobs that are too old or too many, and none whose result somebody waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lastout.jobs.errors import JobsError, NoSuchJob
from lastout.jobs.job import Job
from lastout.jobs.turns_open import forget

if TYPE_CHECKING:
    from lastout.jobs.status import Status
    from lastout.jobs.store import Jobs
    from lastout.jobs.turns_open import Opening

__all__ = ["Pruned", "prune"]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, oldest first, and what was too much but stays: why, by the job's id."""

    removed: tuple[str, ...]
    kept: Mapping[str, str]


def prune(
    store: Jobs,
    older_than: float | None,
    keep: int | None,
    *,
    untaken: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """`Jobs.prune`."""
    if older_than is None and keep is None:
        raise ValueError("say what is too much: an age, or how many are kept")
    for limit in (older_than, keep):
        if limit is not None and not limit >= 0:
            raise ValueError(f"a limit is a number from 0, not {limit!r}")
    newest_first = sorted(store.list(states=["ended"]), key=_ended, reverse=True)
    oldest = None if older_than is None else time.time() - older_than
    removed: list[str] = []
    kept: dict[str, str] = {}
    opened: list[Opening] = []
    stays = 0
    for status in newest_first:
        too_old = oldest is not None and _ended(status) < oldest
        if too_old or (keep is not None and stays >= keep):
            try:
                found = Job(store.state, status.id)._removed(untaken=untaken, dry_run=dry_run)
            except NoSuchJob:
                pass  # somebody else has removed it
            except (JobsError, OSError) as error:
                kept[status.id] = str(error)
            else:
                removed.append(status.id)
                opened += [] if found is None else [found]
                continue
        stays += 1
    forget(store.state, opened)  # once for all: it looks at every job that is left
    return Pruned(tuple(reversed(removed)), kept)


def _ended(status: Status) -> float:
    """When it ended, in seconds since the epoch."""
    at = status.ended_at or status.queued_at
    return datetime.fromisoformat(at).timestamp() if at else time.time()
