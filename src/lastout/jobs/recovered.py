"""Jobs whose runner is gone: found by identity and lock, ended, and reported.

Never by age. Whoever recovers a job holds its lock meanwhile, so it is done by one at a time, and
what is published is published once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable

import msgspec

from lastout import state as states
from lastout.evidence import journal
from lastout.evidence.events import Event
from lastout.identity import Alive, boot_id, still_alive
from lastout.jobs import capture, conclude, layout, queue, reading, sentences
from lastout.jobs.desk import Desk
from lastout.jobs.errors import JobsError
from lastout.jobs.result import Process, Result
from lastout.jobs.results import found_aside, put_result
from lastout.jobs.spec import VERSION, Command, Spec
from lastout.jobs.status import Stored
from lastout.leases import locks
from lastout.leases.model import Holder
from lastout.leases.store import Store
from lastout.outcome import Outcome, decide
from lastout.recovery import act
from lastout.recovery import case as cases
from lastout.recovery.case import Asker, Case

__all__ = ["Recovered", "conclude_runs", "recover", "recover_active", "recover_job", "sweep"]


class Recovered(msgspec.Struct, frozen=True):
    """What was found of one job, in words for people."""

    job: str
    what: str


def recover(state: str | os.PathLike[str] | None = None) -> list[Recovered]:
    """End the trees of jobs whose runner is gone, and publish what is known of them.

    Blocks for as long as their stops take. Raises OSError.
    """
    where = states.locate(state)
    queued = [entry.job for entry in queue.entries(where)]
    found = _recover_all(where, (*(job for _, job in queue.active(where)), *queued))
    sweep(where, 0.0)
    return found


def recover_active(state: str) -> list[Recovered]:
    """`recover` for what has begun: what waits has nothing to be recovered.

    What cannot be recovered now (a full disk) is left for the next time.
    """
    with contextlib.suppress(OSError):
        return _recover_all(state, (job for _, job in queue.active(state)))
    return []


def _recover_all(state: str, jobs: Iterable[str]) -> list[Recovered]:
    found = []
    failed = None
    for job in dict.fromkeys(jobs):
        try:
            if (one := recover_job(state, job)) is not None:
                found.append(one)
        except JobsError:
            continue
        except OSError as error:
            failed = error
    if failed is not None:
        raise failed
    return found


def recover_job(state: str, job: str) -> Recovered | None:
    """One job; None where nothing was to be done, or another does it. Raises NoSuchJob."""
    path = os.path.join(layout.job_directory(state, job), layout.LOCK)
    try:
        with layout.try_lock(path) as fd:
            return None if fd is None else _recover(state, job)
    except FileNotFoundError:
        for by, one in queue.active(state):
            if one == job:
                queue.deactivate(state, by, job)
        return None


def conclude_runs(desk: Desk, reason: str | None) -> Result:
    """End what is left of the runs of a job, and make a result of what is known.

    `reason` says why its own runner did not; None: it did all that was to be done.
    """
    proven = True
    outcome: Outcome | None = None
    lines: list[Event] = []
    leases = _leases(desk.state)
    for run in desk.stored.runs:
        record = desk.stored.record if run == desk.stored.run else None
        record = record or states.record_file(run, desk.state)
        desk.locks_of(run, record)
        case = _case(desk, run, record, leases)
        found = act.recover(case, asker=Asker(stop=True), store=leases)
        lines = []
        with contextlib.suppress(OSError):
            lines = list(journal.read(record).events)
        outcome = decide(lines, run=run, record=record)
        verdict = found.verdict
        proven &= (
            outcome.tree_gone
            or (case.holder is None and not os.path.exists(record))  # its start had not begun
            or (
                verdict is not None
                and (verdict.kind == "exited" or bool(verdict.evidence.get("tree_empty")))
            )
        )
    held = tuple(desk.locks)
    if reason is None and outcome is not None and isinstance(desk.spec.work, Command):
        return conclude.of_command(
            outcome, lines, cancel=None, timeout=desk.spec.work.timeout, locks=held
        )
    desk.locks = {}
    result = conclude.lost(
        outcome,
        lines,
        reason=reason or sentences.RUNNER_LOST,
        proven=proven,
        locks=held,
    )
    if isinstance(desk.spec.work, Command) and desk.spec.work.capture:
        # What had been read when the runner was killed lies there, and says itself how much it is.
        out, err = (capture.kept(desk.directory, stream) for stream in ("stdout", "stderr"))
        result = msgspec.structs.replace(result, stdout=out, stderr=err)
    return result


def _case(desk: Desk, run: str, record: str, leases: Store | None) -> Case:
    """What is known of a run before anybody looks: of which boot it is, and which lock was its own.

    A command's lock lies with its job. An agent's run was begun under a lease; where that is not
    its own any more, it was settled.
    """
    if isinstance(desk.spec.work, Command):
        folder = os.path.join(desk.directory, layout.RUN)
        holder = Holder(run, record, boot_id=desk.before.boot_id, owner=desk.before.identity)
        return Case(run, record, holder, epoch=1, folder=folder)
    for lease in leases.leases() if leases is not None else ():
        if lease.holder is not None and lease.holder.run == run:
            return cases.of_lease(lease, locks.directory(desk.state, lease.key))
    return cases.of_record(record)


def _leases(state: str) -> Store | None:
    """The lease store, or None where nobody ever had a lease: looking must not make one."""
    if not os.path.exists(os.path.join(state, "leases.sqlite3")):
        return None
    from lastout.sole_writer import open_store

    return open_store(state)


def _recover(state: str, job: str) -> Recovered | None:
    """The job's lock is held."""
    spec, stored = reading.spec(state, job), reading.stored(state, job)
    by = layout.by_digest(spec.by)
    if reading.final(state, job) is not None:
        queue.deactivate(state, by, job)
        return Recovered(job, "it had ended")
    directory = layout.job_directory(state, job)
    if (aside := found_aside(directory, job)) is not None:
        put_result(directory, aside)
        if aside.final:
            queue.deactivate(state, by, job)
            return Recovered(job, "its result had not got its name")
    if stored is None or stored.runner is None:
        if not any(one == job for _, one in queue.active(state)):
            return None  # it waits
        stored = Stored(version=VERSION, state="starting", turn=1)
        return _publish(state, spec, stored, f"{sentences.RUNNER_LOST}; {sentences.NEVER_STARTED}")
    if still_alive(stored.runner.identity) is Alive.YES or _inside(state, stored.runs):
        return None
    reason = sentences.another_boot() if _other_boot(stored.runner) else sentences.RUNNER_LOST
    return _publish(state, spec, stored, reason)


def _publish(state: str, spec: Spec, stored: Stored, reason: str) -> Recovered:
    was = stored.runner
    desk = Desk(state, spec, stored)
    try:
        result = conclude_runs(desk, reason)
        if was is not None:
            detail = {**result.detail, "runner": msgspec.to_builtins(was)}
            result = msgspec.structs.replace(result, detail=detail)
        if desk.has_result():
            desk.end(result)
        else:
            desk.publish(result)
    finally:
        desk.close()
    return Recovered(spec.id, result.reason or reason)


def _other_boot(runner: Process) -> bool:
    return bool(runner.boot_id and boot_id() and runner.boot_id != boot_id())


def _inside(state: str, runs: tuple[str, ...]) -> bool:
    """Whether this process belongs to one of these runs: it would be ended in the middle."""
    from lastout.forced import Target, asked_from_inside

    for run in runs:
        known = cases.read(cases.of_record(states.record_file(run, state)))
        if (
            known.front is not None
            and known.keeper is not None
            and known.root is not None
            and asked_from_inside(Target(run, known.front, known.keeper, known.root))
        ):
            return True
    return False


HALF_AGE = 3600.0
"""Seconds: a submitter that has made its directory needs a moment to lock it."""


def _age(entry: os.DirEntry[str]) -> float:
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return -1.0  # it is gone


def sweep(state: str, older_than: float) -> None:
    """What submitters and removers left half-way: nobody holds its lock, and nobody has seen it."""
    top = layout.jobs_directory(state)
    with contextlib.suppress(FileNotFoundError), os.scandir(top) as entries:
        for entry in entries:
            if entry.name.startswith(layout.HALF) and _age(entry) >= older_than:
                with contextlib.suppress(OSError):
                    os.rmdir(entry.path)  # not even a lock in it
                with contextlib.suppress(OSError):
                    with layout.try_lock(os.path.join(entry.path, layout.LOCK)) as fd:
                        if fd is not None:
                            shutil.rmtree(entry.path, ignore_errors=True)
