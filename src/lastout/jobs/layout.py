"""Where everything is below `<state>/jobs`, and what a name in there means."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from typing import Final

from lastout.jobs import sentences

__all__ = [
    "DIRECTORIES",
    "END",
    "FEED",
    "HALF",
    "INBOX",
    "LOCK",
    "RESERVE",
    "RUN",
    "SPEC",
    "STATE",
    "TAKEN",
    "by_digest",
    "digest",
    "is_id",
    "job_directory",
    "jobs_directory",
    "make",
    "result_name",
    "result_turns",
    "try_lock",
]

SPEC: Final = "spec.json"
STATE: Final = "state.json"
FEED: Final = "feed.jsonl"
LOCK: Final = "lock"
INBOX: Final = "inbox"
TAKEN: Final = "taken"
RESERVE: Final = "reserve"
END: Final = "end.json"
RUN: Final = "run"
"""The directory with the lock of a command's run (`leases.locks`), whose epoch is always 1."""
HALF: Final = ".half-"
"""How the name of a job's directory begins that is being made, or taken away."""

DIRECTORIES: Final = ("queue", "active", "names", "slots")

_ID = re.compile(r"\d{8}T\d{6}-[a-z2-7]{6}", re.ASCII)
_RESULT = re.compile(r"result-(\d{1,9})\.json", re.ASCII)


def jobs_directory(state: str) -> str:
    """Below a state directory."""
    return os.path.join(state, "jobs")


def job_directory(state: str, job: str) -> str:
    """The directory of one job."""
    return os.path.join(state, "jobs", job)


def make(state: str) -> str:
    """The jobs' directory, made (0700) where it is missing. Raises OSError, and ValueError for a
    state directory that could not be named in a job's files."""
    try:
        state.encode()
    except UnicodeEncodeError:
        raise ValueError(sentences.no_text(state)) from None
    top = jobs_directory(state)
    for path in (top, *(os.path.join(top, name) for name in DIRECTORIES)):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    return top


def is_id(word: str) -> bool:
    """Whether this is the id of a job, and so the name of its directory."""
    return _ID.fullmatch(word) is not None


def digest(word: str) -> str:
    """A file name for any string."""
    return hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def by_digest(by: str) -> str:
    """The asker's part of a queue entry's name."""
    return digest(by)[:8]


def result_name(turn: int) -> str:
    """The file of a turn's result; of turn 0, the end between two turns."""
    return END if turn == 0 else f"result-{turn}.json"


def result_turns(directory: str) -> list[int]:
    """The turns that have a result, in rising order. Raises FileNotFoundError."""
    found = (_RESULT.fullmatch(name) for name in os.listdir(directory))
    return sorted(int(match[1]) for match in found if match)


@contextlib.contextmanager
def try_lock(path: str, *, inheritable: bool = False) -> Iterator[int | None]:
    """A file's flock without waiting, for the length of the block; None when somebody has it.

    Raises FileNotFoundError. The descriptor may be duplicated to keep the lock.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield fd
    finally:
        os.close(fd)
