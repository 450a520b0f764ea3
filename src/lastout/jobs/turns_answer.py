"""What an answer to an agent's question comes to. Pure."""

from __future__ import annotations

from lastout.jobs.status import Question
from lastout.jobs.turns_sentences import needs_choice
from lastout.jobs.work import Answer

__all__ = ["chosen"]


def chosen(question: Question | None, answer: Answer) -> tuple[str, dict[str, str]]:
    """The choice, and what fills the question's fields.

    A text without a choice answers a question to the user; with one it is the reason for it. Raises
    ValueError for an approval without a choice.
    """
    fields = dict(answer.fields)
    choice = answer.choice
    asks = question is not None and question.kind == "input"
    if answer.text is not None:
        named = question.fields if question is not None else ()
        fields.setdefault(named[0] if asks and named else "reason", answer.text)
    if choice is None:
        if question is None or not asks or not question.choices:
            raise ValueError(needs_choice())
        choice = question.choices[0].id
    return choice, fields
