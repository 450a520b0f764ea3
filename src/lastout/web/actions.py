"""What a person may do from the page: stop a run, end a job. Each tells what came of it."""

from __future__ import annotations

import contextlib
import getpass
import os
from typing import Any

from lastout.errors import LastoutError
from lastout.evidence import journal
from lastout.evidence.events import Note
from lastout.leases import locks
from lastout.recovery import case as cases
from lastout.recovery.act import recover
from lastout.recovery.case import Asker
from lastout.sole_writer import open_store
from lastout.web.leases import Leases
from lastout.web.plain import plain

__all__ = ["stop"]


def stop(
    state: str, leases: Leases, run: str, record: str, *, now: bool, reason: str | None
) -> dict[str, Any]:
    """Stop a run as `lastout stop` does, and tell the verdict. Blocks for the run's own bound at
    most, and the forced step where that is due."""
    try:
        lease = leases.held(run)
        if lease is not None:
            case, store = (
                cases.of_lease(lease, locks.directory(state, lease.key)),
                open_store(state),
            )
        else:
            case, store = cases.of_record(record), None
        detail = {"by": person(), "pid": os.getpid(), "now": now, "reason": reason}
        with contextlib.suppress(OSError):
            text = "a person asked for a stop, on the dashboard"
            journal.append(record, Note, run, text=text, detail=detail)
        result = recover(case, asker=Asker(stop=True), store=store, now=now)
    except (LastoutError, OSError, ValueError) as error:
        return {"settled": False, "kind": None, "sentence": plain(error)}
    if result.verdict is None:
        return {"settled": False, "kind": None, "sentence": plain(result.left or "")}
    verdict = result.verdict
    return {"settled": verdict.settled, "kind": verdict.kind, "sentence": plain(verdict.sentence)}


def person() -> str:
    """Whose dashboard this is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
