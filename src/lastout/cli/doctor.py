"""`lastout doctor`: what this machine allows, and the exact guarantee."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Final

import click

from lastout.cli._options import JSON, STATE
from lastout.cli._plain import plain

if TYPE_CHECKING:
    from lastout.doctor.finding import Finding
    from lastout.doctor.report import Report

__all__ = ["command"]

_MARKS: Final = {"good": "+", "note": "i", "weak": "!", "bad": "x"}


@click.command("doctor")
@click.option("-v", "--verbose", is_flag=True, help="Also what every finding means.")
@JSON
@STATE
def command(verbose: bool, as_json: bool, state: str | None) -> None:
    """Say what this machine allows: the kernel, records and locks, what stands around, limits.

    Each tier is tried with a real command that leaves a process behind. Then the exact guarantee in
    one sentence, what it does not cover, and what would make it stronger. The exit status is 1 when
    runs cannot be supervised here, or leases not be held.

    \b
    Examples:
      lastout doctor
      lastout doctor --verbose
      lastout doctor --json | jq -r .guarantee
    """
    from lastout.doctor.report import examine

    with plain():
        report = examine(state)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    else:
        click.echo("\n".join(_text(report, verbose)))
    if not report.sound:
        raise SystemExit(1)


def _text(report: Report, verbose: bool) -> list[str]:
    lines: list[str] = []
    for name, found in report.sections.items():
        lines.append(name)
        for one in found:
            lines += _finding(one, verbose)
    lines.append("tiers")
    for trial in report.trials:
        mark = "+" if trial.available else "-"
        how = "a process in a session of its own was ended, and proven gone"
        lines += _wrapped(f"  {mark} {trial.tier.name}: {how if trial.available else trial.why}")
    lines += ["", "The guarantee", *_wrapped("  " + report.guarantee)]
    if report.not_covered:
        lines += ["", "It does not cover"]
        for gap in report.not_covered:
            lines += _wrapped("  - " + gap)
    if report.stronger:
        lines += ["", "Stronger would be"]
        for remedy in report.stronger:
            lines += _wrapped("  - " + remedy)
    return lines


def _finding(one: Finding, verbose: bool) -> list[str]:
    lines = _wrapped(f"  {_MARKS[one.grade]} {one.subject}: {one.found}")
    if one.meaning and (verbose or one.grade != "good"):
        lines += _wrapped("      " + one.meaning)
    return lines


def _wrapped(text: str) -> list[str]:
    indent = len(text) - len(text.lstrip(" +i!x-"))
    return textwrap.wrap(text, 100, subsequent_indent=" " * indent, break_on_hyphens=False)
