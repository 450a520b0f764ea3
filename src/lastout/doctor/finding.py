"""One thing that was looked at, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Grade"]

Grade = Literal["good", "note", "weak", "bad"]
"""`good`: as wanted. `note`: worth knowing. `weak`: the guarantee has a gap here. `bad`: runs cannot
be supervised, or leases not be held."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found; `remedy` says what would make it better, where something would."""

    subject: str
    grade: Grade
    found: str
    meaning: str = ""
    remedy: str = ""
