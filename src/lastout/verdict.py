"""Verdicts: what a stop is known to have achieved, as values with the evidence behind them.

`exited` and `killed` let the next start go ahead; `unproven` does not. A verdict never says more
than was observed, and waiting alone never improves one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

__all__ = ["EXITED", "KILLED", "SENTENCES", "UNPROVEN", "Kind", "Verdict"]

Kind = Literal["exited", "killed", "unproven"]

EXITED: Final[Kind] = "exited"
KILLED: Final[Kind] = "killed"
UNPROVEN: Final[Kind] = "unproven"

# How each verdict came about: the code that is stored, whose verdict it can be, and its sentence.
_HOW: Final[dict[str, tuple[Kind, str]]] = {
    "tree-gone": (EXITED, "the kernel told the supervisor that nothing of the run was left"),
    "never-started": (EXITED, "the agent was never executed"),
    "other-boot": (EXITED, "the machine was started anew since: nothing of that boot is left"),
    "cgroup-removed": (
        EXITED,
        "the cgroup that was made for the run is gone, so nothing lives in it",
    ),
    "nothing-left": (EXITED, "the forced step found nothing of the run that was still alive"),
    "killed-by-supervisor": (
        KILLED,
        "the supervisor's SIGKILL was delivered to the whole tree; nobody saw the tree's end",
    ),
    "forced": (KILLED, "the forced step's SIGKILL reached all of the run that it found"),
    "not-all-reached": (
        KILLED,
        "agent and writer are gone; the forced step's SIGKILL did not reach all that it found",
    ),
    "root-gone": (KILLED, "agent and writer are observed gone; nobody saw the tree's end"),
    "killed-with-keeper": (
        KILLED,
        "the supervisor died while it started the agent, and the kernel kills the agent with it",
    ),
    "not-delivered": (UNPROVEN, "the kill could not be delivered"),
    "still-alive": (UNPROVEN, "the agent was still alive when the bound was over"),
    "cannot-tell": (UNPROVEN, "nobody can say from here whether the agent is still alive"),
    "record-unreadable": (UNPROVEN, "the record of the run cannot be read"),
    "table-unreadable": (UNPROVEN, "the process table cannot be read"),
    "not-the-supervisor": (
        UNPROVEN,
        "the processes that are alive do not match what the record says of the supervisor",
    ),
    "no-record": (UNPROVEN, "there is no record that tells what was started"),
    "lock-held": (UNPROVEN, "somebody holds the lock of the run, and no record tells who"),
    "asked-from-inside": (UNPROVEN, "a member of a run cannot take the forced step against it"),
}

SENTENCES: Final[Mapping[str, str]] = {how: sentence for how, (_, sentence) in _HOW.items()}
"""How a verdict came about, by its code, in words for people."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict. `how` is a code of `SENTENCES`; `evidence` is what was observed, as JSON."""

    kind: Kind
    how: str
    root_gone: bool | None = None
    """Whether the root was observed gone; None when nobody looked or nobody could tell."""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"no verdict is named {self.kind!r}")
        # A code that this version does not know was written by a later one: kept as it is.
        if (known := _HOW.get(self.how)) is not None and known[0] != self.kind:
            raise ValueError(f"{self.how} is a way to {known[0]}, never to {self.kind}")
        if self.kind == EXITED and self.root_gone is False:
            raise ValueError("a run whose root is not gone has not exited")

    @property
    def settled(self) -> bool:
        """Whether the next start may go ahead."""
        return self.kind != UNPROVEN

    @property
    def sentence(self) -> str:
        """The verdict in words for people."""
        return f"{self.kind}: {SENTENCES.get(self.how, self.how)}"

    def to_json(self) -> dict[str, Any]:
        """The form in leases and in the record's `closed` and `forced` lines."""
        return {
            "kind": self.kind,
            "how": self.how,
            "root_gone": self.root_gone,
            "evidence": dict(self.evidence),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Verdict | None:
        """Read one back; None for null. Raises ValueError for what is none."""
        if data is None:
            return None
        try:
            return cls(
                kind=data["kind"],
                how=str(data["how"]),
                root_gone=data.get("root_gone"),
                evidence=dict(data.get("evidence") or {}),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a verdict: {data!r}") from error
