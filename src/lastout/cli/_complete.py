"""Completing run ids: the newest ones, those that fit what was typed."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

__all__ = ["run_ids"]

_MOST = 40
_SUFFIX = ".jsonl"


def run_ids(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The ids of runs that begin so, the one that was written to last first."""
    from lastout.evidence.find import records

    try:
        found = [
            (entry.stat().st_mtime_ns, entry.name.removesuffix(_SUFFIX))
            for entry in records(context.params.get("state"))
            if entry.name.startswith(typed)
        ]
    except OSError:
        return []
    newest = [run for _, run in sorted(found, reverse=True)[:_MOST]]
    words = [*newest, "last"] if "last".startswith(typed) else newest
    return [CompletionItem(word) for word in words]
