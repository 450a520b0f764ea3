"""What tests of recovery share: cases of real runs, and of edited records."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.run import Run
from lastout import identity
from lastout.identity import ProcessIdentity
from lastout.leases import model
from lastout.leases.memory import MemoryStore
from lastout.leases.model import Holder
from lastout.recovery import case as cases
from lastout.recovery.act import Result
from lastout.recovery.case import Case


def case_of(run: Run) -> Case:
    assert run.record is not None
    assert run.started
    return cases.of_record(str(run.record.path))


def told(result: Result) -> tuple[str | None, str | None]:
    return (result.verdict.kind, result.verdict.how) if result.verdict else (None, result.left)


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # one of the supervisors had reaped it


def edited(run: Run, change: Callable[[list[dict[str, Any]]], None]) -> Case:
    """A copy of the record with other lines."""
    assert run.record is not None
    assert run.started
    path = Path(run.record.path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    copy = path.with_name("copy.jsonl")
    copy.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return cases.of_record(str(copy))


def committed(
    store: MemoryStore, key: str, run: Run, writer: ProcessIdentity | None = None
) -> Case:
    known = cases.read(case_of(run))
    assert known.front
    assert known.keeper
    assert known.root
    held = Holder(run.started["run"], record=str(case_of(run).record), boot_id=identity.boot_id())
    people = {"front": known.front, "keeper": known.keeper, "root": known.root}
    store.change(key, lambda found, at: model.reserve(None, key, held, at))
    store.change(
        key,
        lambda found, at: model.commit(found and found.lease, 1, at, max_stop_ms=5500, **people),
    )
    lease = store.change(
        key, lambda found, at: model.prove(found and found.lease, 1, at, writer=writer)
    )
    return cases.of_lease(lease, None)
