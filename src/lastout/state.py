"""Where the state lives: one directory a user, found without $HOME or $XDG_*.

Hosts trim the environment of what they start, and two contexts of one user must find the same lock
files.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # typing's own costs more to import than all of this
if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["locate", "new_run", "record_file", "record_path", "state_dir", "valid_run"]

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_RUN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def state_dir(option: str | os.PathLike[str] | None = None) -> Path:
    """The state directory, made with mode 0700 where it is missing.

    `option` is the path that the user gave, or None for `.local/state/lastout` below the home
    directory that the password database names. Raises OSError when it cannot be made or belongs to
    somebody else.
    """
    from pathlib import Path

    return Path(locate(option))


def record_path(run: str, state: str | os.PathLike[str] | None = None) -> Path:
    """The record of a run; its directory is made where it is missing. Raises ValueError for what is
    no run id."""
    from pathlib import Path

    return Path(record_file(run, locate(state)))


def new_run() -> str:
    """A new run id: UTC to the second, and 6 random characters (30 bits)."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return moment + "-" + "".join(_ALPHABET[byte & 31] for byte in os.urandom(6))


def valid_run(run: str) -> bool:
    """Whether this can be a run id: 1 to 64 of `[A-Za-z0-9._-]`, and no name that a directory has
    already."""
    return 0 < len(run) <= 64 and _RUN_CHARACTERS.issuperset(run) and run not in (".", "..")


# Strings instead of paths from here on: `lastout run` comes through here before its exec, and
# pathlib costs more than everything else that it imports.


def locate(option: str | os.PathLike[str] | None = None) -> str:
    """`state_dir` as a string."""
    if option is not None:
        given = os.fspath(option)
        if not given:
            raise ValueError(
                "the state directory is an empty string; leave it out, or name a directory"
            )
        path = os.path.abspath(given)
    else:
        path = os.path.join(_home(), ".local", "state", "lastout")
    try:
        _make(path)
    except FileExistsError:
        _check(path)
    # What a process knows of its own grants it finds by this name: one name for one directory.
    return os.path.realpath(path)


def record_file(run: str, state: str) -> str:
    """`record_path` as a string, below a state directory that `locate` gave."""
    if not valid_run(run):
        raise ValueError(f"a run id is 1 to 64 of A-Z a-z 0-9 . _ -, not {run!r}")
    directory = os.path.join(state, "runs", run[:8])
    try:
        _make(directory)
    except FileExistsError:
        pass  # if it is no directory, whoever opens the record is told so
    return os.path.join(directory, run + ".jsonl")


def _make(path: str) -> None:
    """Make a directory for us alone, and those above it. Raises FileExistsError when it is there."""
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)


def _home() -> str:
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise FileNotFoundError(
            f"uid {os.getuid()} has no entry in the password database, so no home directory; "
            "name a state directory (--state DIR, or state=)"
        ) from None
    if not os.path.isabs(home):
        raise FileNotFoundError(
            f"the home directory of uid {os.getuid()} is {home!r}; name a state directory"
        )
    return home


def _check(path: str) -> None:
    found = os.stat(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(20, "the state directory is not a directory", path)
    if found.st_uid != os.getuid():
        # Whoever owns the directory can replace the locks in it: a lease would mean nothing.
        raise PermissionError(1, f"the state directory belongs to uid {found.st_uid}", path)
