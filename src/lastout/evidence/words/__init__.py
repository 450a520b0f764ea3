"""All sentences for people about a run, one for each kind of claim; nothing else phrases evidence.

A sentence says what its claim's facts say and no more: what was seen is told as seen, what somebody
said as said, and what nobody said as not reported.
"""

from __future__ import annotations

from lastout.evidence.words import ends, others, run
from lastout.evidence.words.ends import usual_source
from lastout.evidence.words.others import REMINDER
from lastout.evidence.words.parts import SENTENCES, Facts, command_line, visible

__all__ = ["KINDS", "REMINDER", "command_line", "sentence", "usual_source", "visible"]

KINDS = frozenset(SENTENCES)
_ALL = (run, ends, others)


def sentence(kind: str, facts: Facts) -> str:
    """The sentence of a claim. Raises KeyError for a kind that has none."""
    return SENTENCES[kind](facts)
