"""`lastout recover`: bring runs that may be over to a verdict."""

from __future__ import annotations

import json
import sys

import click

from lastout.cli._leases import case_of, held, store
from lastout.cli._options import JSON, STATE
from lastout.cli._plain import plain
from lastout.evidence.words.parts import visible
from lastout.leases import locks
from lastout.recovery import case as cases
from lastout.recovery import cgroups, runs
from lastout.recovery.act import Result, examine, recover_all
from lastout.recovery.case import Asker, Case
from lastout.recovery.cgroups import Left, Swept
from lastout.recovery.decide import Step
from lastout.state import locate

__all__ = ["command"]

_WOULD = {
    Step.LEAVE: "would leave it alone",
    Step.FENCE: "would fence the epoch, then test its lock",
    Step.AWAIT_START: "would wait for a start that is under way",
    Step.ASK: "would send SIGTERM to its supervisor and wait out its bound",
    Step.FORCE: "would take the forced step",
}


@click.command("recover")
@click.argument("names", metavar="[RUN|KEY]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@JSON
@STATE
def command(names: tuple[str, ...], dry_run: bool, as_json: bool, state: str | None) -> None:
    """Examine runs whose owner is gone, or that are unproven, and end what is left of them.

    Without a name: every held lease and every run that is not known to be over, side by side. A run
    whose owner is alive is left alone. The exit status is 1 when a run stays unproven.

    \b
    Examples:
      lastout recover
      lastout recover my-conversation
      lastout recover --dry-run
    """
    with plain():
        where = locate(state)
        todo = [case_of(state, name) for name in names] or _all(where)
        records = [one.record for one in todo if one.record] if names else runs.records(where)
        left = list(cgroups.find(records))
        if dry_run:
            _would(todo, left, as_json)
            return
        # First: afterwards nobody lives who would have to be looked for.
        swept = [cgroups.sweep(one) for one in left]
        results = recover_all(todo, asker=Asker(), store=store(where))
    if as_json:
        documents = [_document(result) for result in results]
        click.echo(json.dumps(documents + [_swept(one) for one in swept]))
    else:
        for one in swept:
            click.echo(visible(f"{one.left.run}: {one.sentence}"))
        for result in results:
            click.echo(_sentence(result))
        if not results and not swept:
            click.echo("nothing to recover")
    unproven = [one for one in results if one.verdict is not None and not one.verdict.settled]
    stays = [one for one in swept if not one.removed]
    sys.exit(1 if unproven or stays else 0)


def _all(state: str) -> list[Case]:
    leases = held(state)
    found = {
        lease.holder.run: cases.of_lease(lease, locks.directory(state, lease.key))
        for lease in leases
        if lease.holder
    }
    for run in runs.unfinished(state):
        found.setdefault(run.run, cases.of_record(run.record))
    return list(found.values())


def _would(todo: list[Case], left: list[Left], as_json: bool) -> None:
    documents: list[dict[str, object]] = []
    for one in left:
        documents.append({"run": one.run, "step": "sweep", "cgroup": one.path})
        if not as_json:
            click.echo(visible(f"{one.run}: would end and remove its cgroup {one.path}"))
    for case in todo:
        decision, facts, _ = examine(case)
        verdict = decision.verdict
        documents.append(
            {
                "run": case.run,
                "key": case.key,
                "step": decision.step.value,
                "verdict": verdict.to_json() if verdict else None,
                "record": facts.record.value,
            }
        )
        if not as_json:
            would = _WOULD.get(decision.step) or f"would say {verdict.sentence if verdict else ''}"
            why = f" ({decision.why})" if decision.why else ""
            click.echo(f"{_name(case)}: {would}{why}")
    if as_json:
        click.echo(json.dumps(documents))
    elif not documents:
        click.echo("nothing to recover")


def _document(result: Result) -> dict[str, object]:
    return {
        "run": result.case.run,
        "key": result.case.key,
        "verdict": result.verdict.to_json() if result.verdict else None,
        "left": result.left,
        "steps": result.steps,
    }


def _swept(one: Swept) -> dict[str, object]:
    return {
        "run": one.left.run,
        "cgroup": one.left.path,
        "killed": one.killed,
        "removed": one.removed,
        "why": one.why,
    }


def _sentence(result: Result) -> str:
    if result.verdict is not None:
        return f"{_name(result.case)}: {result.verdict.sentence}"
    return f"{_name(result.case)}: left alone; {result.left}"


def _name(case: Case) -> str:
    return visible(f"{case.key!r}, run {case.run}" if case.key else case.run)
