"""All checks together: the findings, the tiers, and the sentence that says what holds here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from lastout.doctor import kernel, limits, state_directory, surroundings
from lastout.doctor.finding import Finding
from lastout.doctor.tiers import TIERS, Trial, attempt
from lastout.errors import SupervisorMissing

__all__ = ["Report", "examine"]


@dataclass(slots=True)
class Report:
    """What was found on this machine, for this user, just now."""

    sections: dict[str, list[Finding]] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the default tier holds, and records and leases have their place."""
        default = any(one.available and one.tier.name == "subreaper" for one in self.trials)
        return default and not any(one.grade == "bad" for one in self._findings())

    @property
    def guarantee(self) -> str:
        """The exact guarantee of a run with no option given, in one sentence."""
        for one in self.trials:
            if one.tier.name == "subreaper" and one.available:
                return one.tier.guarantee
        return "Nothing is guaranteed here: the supervisor cannot hold a run."

    @property
    def not_covered(self) -> list[str]:
        """What that sentence does not speak of."""
        for one in self.trials:
            if one.tier.name == "subreaper" and one.available:
                # As root every program can be signalled.
                return [
                    gap
                    for gap in one.tier.not_covered
                    if not (os.geteuid() == 0 and gap.startswith("set-uid"))
                ]
        return []

    @property
    def stronger(self) -> list[str]:
        """What would make it stronger: a tier that is there, one that could be had, a remedy."""
        others = [one for one in self.trials if one.tier.name != "subreaper"]
        told = [
            f"--contain {one.tier.name}, which this machine allows"
            for one in others
            if one.available
        ]
        told += [
            f"--contain {one.tier.name}, which needs {one.tier.wants}"
            for one in others
            if not one.available
        ]
        told += [f"{one.subject}: {one.remedy}" for one in self._findings() if one.remedy]
        return told

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "sound": self.sound,
            "guarantee": self.guarantee,
            "not_covered": self.not_covered,
            "stronger": self.stronger,
            "tiers": [
                {
                    "name": one.tier.name,
                    "available": one.available,
                    "why_not": one.why or None,
                    "guarantee": one.tier.guarantee,
                    "not_covered": list(one.tier.not_covered),
                }
                for one in self.trials
            ],
            "findings": {
                name: [asdict(one) for one in found] for name, found in self.sections.items()
            },
        }

    def _findings(self) -> Iterable[Finding]:
        for found in self.sections.values():
            yield from found


def examine(state: str | None = None) -> Report:
    """Look at everything; takes about as long as three short runs. Leaves nothing behind."""
    report = Report()
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "kernel": kernel.check,
        "records and locks": lambda: state_directory.check(state),
        "surroundings": surroundings.check,
        "limits": limits.check,
    }
    for name, check in checks.items():
        report.sections[name] = list(check())
    try:
        report.trials = [attempt(tier) for tier in TIERS]
    except SupervisorMissing as error:
        missing = Finding("supervisor", "bad", "missing", str(error))
        report.sections["supervisor"] = [missing]
    return report
