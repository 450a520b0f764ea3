"""Recovery: gather the facts of a run, do what `decide` says, and write down what came of it.

Every wait is on pidfds and bounded by the run's own MAX_STOP, whatever version wrote it. A run
whose owner is alive is left alone, unless it is the owner or a person who asks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from lastout.evidence import journal
from lastout.evidence.events import Closed
from lastout.forced import Target, force
from lastout.graces import FORCED_STEP, MARGIN
from lastout.identity import Alive, boot_id, same, still_alive
from lastout.leases import locks, model
from lastout.leases.refusals import Fenced
from lastout.leases.store import Store
from lastout.recovery import case as cases
from lastout.recovery import supervisors, teardown
from lastout.recovery.case import Asker, Case, Known
from lastout.recovery.decide import Decision, Facts, Record, Step, decide
from lastout.tree import Table, group_alive
from lastout.verdict import UNPROVEN, Verdict

__all__ = ["Result", "examine", "recover", "recover_all"]

_MOST_STEPS: Final = 16
_MOST_THREADS: Final = 256  # they sleep on pidfds


@dataclass(slots=True)
class Result:
    """What became of one run. Without a verdict it was left alone, and `left` says why."""

    case: Case
    verdict: Verdict | None = None
    left: str | None = None
    steps: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Progress:
    fenced: bool = False
    awaited: bool = False
    asked: bool = False
    forced: Verdict | None = None


def examine(case: Case, asker: Asker = Asker()) -> tuple[Decision, Facts, Known]:  # noqa: B008
    """What recovery would do first, with the facts behind it; nothing is touched."""
    facts, known = _with_group(*_observe(case, asker, _Progress()))
    return decide(facts), facts, known


def recover(
    case: Case,
    *,
    asker: Asker = Asker(),  # noqa: B008 (frozen)
    store: Store | None = None,
    now: bool = False,
) -> Result:
    """Bring one run to a verdict, and write it to the record and to its lease.

    `now` leaves out the graces of the polite stop. Blocks at most for the run's own MAX_STOP plus
    margin plus the forced step. Raises what the store raises.
    """
    return _recover(case, asker, store, now, examine(case, asker))


def recover_all(
    todo: Sequence[Case],
    *,
    asker: Asker = Asker(),  # noqa: B008 (frozen)
    store: Store | None = None,
    told: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Recover many runs: at once what is over already, and the others side by side."""
    # One reading of the process table for all, after every supervisor was looked at.
    seen = [_observe(one, asker, _Progress()) for one in todo]
    table = _table() if len(todo) > 1 else None
    first = [_with_group(facts, known, table) for facts, known in seen]
    results: dict[int, Result] = {}
    slow: list[int] = []

    def run(number: int) -> Result:
        facts, known = first[number]
        return _recover(todo[number], asker, store, False, (decide(facts), facts, known))

    for number, (facts, _) in enumerate(first):
        if decide(facts).step in (Step.SETTLE, Step.LEAVE, Step.FENCE):
            results[number] = run(number)
            if told:
                told(results[number])
        else:
            slow.append(number)
    if slow:
        with ThreadPoolExecutor(min(_MOST_THREADS, len(slow)), "lastout-recover") as pool:
            jobs = {number: pool.submit(run, number) for number in slow}
            for number, job in jobs.items():
                results[number] = job.result()
                if told:
                    told(results[number])
    return [results[number] for number in range(len(todo))]


_Examined = tuple[Decision, Facts, Known]


def _recover(
    case: Case, asker: Asker, store: Store | None, now: bool, examined: _Examined
) -> Result:
    """Go on from what was found; whatever takes long is done by one at a time."""
    result = Result(case)
    decision, facts, known = examined
    if decision.step in (Step.SETTLE, Step.LEAVE):
        _advance(result, asker, store, now, (facts, known))
        return result
    bound = known.max_stop + MARGIN + FORCED_STEP + MARGIN
    with teardown.alone(case.record, bound) as ours:
        if ours:
            _advance(result, asker, store, now)  # looked at again: another may have been here
        else:
            result.left = f"another teardown has been under way for more than {bound:.1f} s"
    return result


def _advance(
    result: Result,
    asker: Asker,
    store: Store | None,
    now: bool,
    first: tuple[Facts, Known] | None = None,
) -> None:
    progress = _Progress()
    case = result.case
    for _ in range(_MOST_STEPS):
        facts, known = first or _with_group(*_observe(case, asker, progress))
        decision = decide(facts)
        result.steps.append(decision.step.value)
        match decision.step:
            case Step.SETTLE:
                assert decision.verdict is not None
                result.verdict = decision.verdict
                _write(case, known, decision.verdict, store)
                return
            case Step.LEAVE:
                result.left = decision.why
                return
            case Step.FENCE:
                progress = replace(progress, fenced=_fence(case))
            case Step.AWAIT_START:
                supervisors.await_start(case)
                progress = replace(progress, awaited=True)
            case Step.ASK:
                supervisors.ask(case, known, now=now)
                progress = replace(progress, asked=True)
            case Step.FORCE:
                progress = replace(progress, forced=_forced(case, known))
    raise AssertionError(f"no decision after {result.steps}")


def _observe(case: Case, asker: Asker, progress: _Progress) -> tuple[Facts, Known]:
    known = cases.read(case)
    boots = known.boot_id, boot_id()
    lock = None
    if progress.fenced and case.folder is not None and case.epoch is not None:
        lock = locks.probe(case.folder, case.epoch)
    owns = asker.stop or any(
        known.owner is not None and same(known.owner, one) is True for one in asker.identities
    )
    facts = Facts(
        same_boot=boots[0] == boots[1] if all(boots) else None,
        record=known.record,
        lock=lock,
        fenced=progress.fenced,
        executing=known.executing,
        cgroup_removed=known.cgroup_removed,
        kill_delivered=known.kill_delivered,
        asker_owns=owns,
        handle_gone=asker.handle_gone or asker.stop,
        awaited=progress.awaited,
        asked=progress.asked,
        forced=progress.forced,
        evidence=known.evidence,
    )
    if facts.same_boot is False or known.record in (Record.TREE_GONE, Record.NOT_STARTED):
        return facts, known  # decided already: nobody needs to be looked at
    front, keeper, root, owner = (
        still_alive(one) if one else None
        for one in (known.front, known.keeper, known.root, known.owner)
    )
    writer = still_alive(known.writer) if known.writer and known.writer != known.root else None
    if Alive.YES not in (front, keeper) and cases.read(case).record is not known.record:
        # They ended after the record was read, and wrote their last word before they did.
        return _observe(case, asker, progress)
    return replace(facts, front=front, keeper=keeper, root=root, owner=owner, writer=writer), known


def _with_group(facts: Facts, known: Known, table: Table | None = None) -> tuple[Facts, Known]:
    """Whether anybody lives in the group of a root that has no supervisor any more."""
    if facts.root is None or known.root is None or Alive.YES in (facts.front, facts.keeper):
        return facts, known
    try:
        found = group_alive(known.root, table)
    except OSError:
        found = None
    group = Alive.UNKNOWN if found is None else Alive.YES if found else Alive.NO
    if (held := known.tier.alive()) in (Alive.YES, Alive.UNKNOWN) and group is not Alive.YES:
        group = held
    return replace(facts, group=group), known


def _table() -> Table | None:
    """The process table, or None where it is unreadable (hidepid): each looks for itself then."""
    try:
        return Table.read()
    except OSError:
        return None


def _fence(case: Case) -> bool:
    """From here on no front of this epoch can start: it would see the newer file."""
    if case.folder is not None and case.epoch is not None:
        locks.create(case.folder, case.epoch + 1, {})
    return True


def _forced(case: Case, known: Known) -> Verdict:
    if known.front is None or known.keeper is None or known.root is None:
        return Verdict(UNPROVEN, "cannot-tell", None, {"why": "no identities to take it against"})
    target = Target(
        known.run, known.front, known.keeper, known.root, known.writer, case.record, known.tier
    )
    return force(target)


def _write(case: Case, known: Known, verdict: Verdict, store: Store | None) -> None:
    told_already = known.record is Record.MISSING or known.closed == verdict.kind
    if case.record is not None and not told_already:
        evidence = {"how": verdict.how, "root_gone": verdict.root_gone}
        with contextlib.suppress(OSError):
            journal.append(case.record, Closed, known.run, verdict=verdict.kind, evidence=evidence)
    if store is not None and case.key is not None and case.epoch is not None:
        epoch = case.epoch
        # Fenced: somebody else has settled it, or it was never in this store.
        with contextlib.suppress(Fenced):
            store.change(
                case.key,
                lambda stored, at: model.settle(
                    stored.lease if stored else None, epoch, verdict, at
                ),
            )
