"""From what a person types to a record: an id, the start of one, `last`, or a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lastout.errors import LastoutError
from lastout.state import locate

__all__ = ["NoSuchRun", "directories", "find", "records", "records_in"]

_SUFFIX = ".jsonl"


class NoSuchRun(LastoutError, LookupError):
    """No run, or more than one, is meant by what was given."""


def find(wanted: str, state: str | os.PathLike[str] | None = None) -> Path:
    """The record that is meant. Raises NoSuchRun, or OSError where the state cannot be read.

    `wanted` is a run id, the unambiguous beginning of one, `last` for the newest, or a path (it has
    a slash or ends in `.jsonl`).
    """
    if "/" in wanted or wanted.endswith(_SUFFIX):
        path = Path(wanted)
        if not path.is_file():
            raise NoSuchRun(f"there is no record at {wanted}")
        return path
    runs = os.path.join(locate(state), "runs")
    exact = os.path.join(runs, wanted[:8], wanted + _SUFFIX)
    if os.path.isfile(exact):
        return Path(exact)
    found = _newest(runs) if wanted == "last" else _beginning(runs, wanted)
    if not found:
        where = "there is no run yet" if wanted == "last" else f"there is no run {wanted!r}"
        raise NoSuchRun(f"{where} in {runs}")
    if len(found) > 1:
        some = ", ".join(sorted(os.path.basename(path)[: -len(_SUFFIX)] for path in found[:4]))
        raise NoSuchRun(f"{wanted!r} is the beginning of {len(found)} runs: {some}, …")
    return Path(found[0])


def directories(state: str | os.PathLike[str] | None = None) -> Iterator[tuple[str, int]]:
    """Every directory that holds records, with the time (ns) of its last addition or removal."""
    for directory in _entries(os.path.join(locate(state), "runs")):
        if directory.is_dir(follow_symlinks=False):
            yield directory.path, directory.stat(follow_symlinks=False).st_mtime_ns


def records_in(directory: str) -> Iterator[os.DirEntry[str]]:
    """The records in one directory, in no order."""
    for entry in _entries(directory):
        if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False):
            yield entry


def records(state: str | os.PathLike[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """Every record below a state directory, in no order."""
    for directory, _ in directories(state):
        yield from records_in(directory)


def _beginning(runs: str, wanted: str) -> list[str]:
    found = []
    for directory in _entries(runs):
        if directory.name.startswith(wanted[:8]) or wanted.startswith(directory.name):
            found += [
                entry.path
                for entry in _entries(directory.path)
                if entry.name.startswith(wanted) and entry.name.endswith(_SUFFIX)
            ]
    return found


def _newest(runs: str) -> list[str]:
    """The record that was written to last: ids may be anybody's, so their order means nothing."""
    newest, at = "", -1
    # A directory holds one day's runs and changes when one is added, so few have to be looked into.
    by_time = sorted(_entries(runs), key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    for directory in by_time[:3]:
        for entry in _entries(directory.path):
            if entry.name.endswith(_SUFFIX) and (when := entry.stat().st_mtime_ns) > at:
                newest, at = entry.path, when
    return [newest] if newest else []


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
