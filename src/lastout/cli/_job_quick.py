"""`lastout job submit` of a plain command, without click: a third of what it would cost.

Only for what is written in the usual way; everything else, help and mistakes among it, is told by
the command of `_job_submit`, which this gives way to.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["submit"]

_WITH_VALUE = {
    "--name": "name", "--by": "by", "--cwd": "cwd", "--timeout": "timeout", "--output": "output",
    "--budget": "graces", "--contain": "contain", "--state": "state",
}  # fmt: skip


def submit(arguments: list[str]) -> bool:
    """Submit and print the id. False: it is not for us; then nothing was done."""
    parsed = _parsed(arguments)
    if parsed is None:
        return False
    how, words, as_json = parsed
    from lastout.jobs.errors import JobsError
    from lastout.jobs.spec import Command
    from lastout.jobs.store import open_jobs

    try:
        state = how.pop("state", None)
        job = open_jobs(state).submit(Command(words, **how))
    except (JobsError, OSError, ValueError) as error:
        from lastout.cli._plain import said

        os.write(2, f"Error: {said(error)}\n".encode(errors="surrogateescape"))
        sys.exit(1)
    if as_json:
        from msgspec.json import encode

        text = encode({"job": job.id, "directory": job.directory}).decode()
    else:
        text = job.id
    os.write(1, text.encode() + b"\n")
    return True


def _parsed(arguments: list[str]) -> tuple[dict[str, Any], list[str], bool] | None:
    how: dict[str, Any] = {}
    as_json = False
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        if word == "--":
            words = arguments[position:]
            fits = words and (how.get("output") is None or how.get("capture") is False)
            return (how, words, as_json) if fits else None
        if word == "--json":
            as_json = True
        elif word == "--no-capture":
            how["capture"] = False
        elif word in _WITH_VALUE and position < len(arguments):
            how[_WITH_VALUE[word]] = arguments[position]
            position += 1
        else:
            return None
        if word == "--timeout":
            try:
                how["timeout"] = float(how["timeout"])
            except ValueError:
                return None
            if not 0 < how["timeout"] < float("inf"):
                return None
    return None
