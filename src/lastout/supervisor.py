"""The native supervisor: where it is, and its argv.

`command` gives an argv that any API can start (subprocess, asyncio, anyio, a config file): the
given command with the supervisor in front. docs/reference/supervisor.md has the options.
"""

from __future__ import annotations

import functools
import math
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lastout.errors import SupervisorMissing
from lastout.graces import DEFAULT, PRESETS, Graces, resolve
from lastout.state import new_run, record_path, valid_run

if TYPE_CHECKING:
    from lastout.identity import ProcessIdentity

__all__ = ["Argument", "binary", "command", "grace_options", "masks", "plain_argv", "seconds"]

Argument = str | bytes | os.PathLike[str] | os.PathLike[bytes]

LONGEST = 2_000_000.0
"""Seconds: the longest timeout that the supervisor takes (23 days; native/spec.c)."""

_NEVER_FORWARDED = frozenset({"TERM", "KILL", "STOP"})


def binary() -> str:
    """The path of the native program. Raises SupervisorMissing with what to do about it."""
    path = _installed()
    if not os.access(path, os.X_OK):
        raise SupervisorMissing(
            f"the native program is not at {path}: install lastout from a wheel, or with a "
            "C compiler at hand; in a checkout run `make native`"
        )
    return path


def command(
    argv: Sequence[Argument],
    *,
    owner: Literal["self", "parent"] | ProcessIdentity | None = "parent",
    graces: Graces | str | None = None,
    run: str | None = None,
    key: str | None = None,
    lock: str | os.PathLike[str] | None = None,
    epoch: int | None = None,
    record: bool | str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    control: int | None = None,
    stdin_end: Literal["stop", "ignore"] = "stop",
    leftovers: Literal["stop", "wait"] = "stop",
    contain: Literal["subreaper", "cgroup", "pidns"] = "subreaper",
    timeout: float | None = None,
    forward: Iterable[str | int] = (),
    close_fds: bool = False,
    keep_fds: Iterable[int] = (),
    new_session: bool = False,
    ctty: bool = False,
    observe: float | None = None,
    argv0: str | bytes | None = None,
    cwd: Argument | None = None,
    umask: int | None = None,
    uid: int | None = None,
    gid: int | None = None,
    groups: Iterable[int] | None = None,
    rlimits: Mapping[str, tuple[int, int]] | None = None,
    mask: Iterable[int] = (),
) -> list[str]:
    """`argv` with the supervisor in front: the same program for any API that starts an argv.

    `owner` is whose death stops the run: "parent" whoever starts the argv, "self" this process, an
    identity of another ancestor, None nobody. `graces` is a preset's name or `Graces`; `timeout` is
    in seconds. Without `record`, a path, or True for a new run below `state`, no record is written.
    `key` is a word in it: only `open_process` and `lastout run --key` let one run at a time have a
    key. `contain` is the tier that holds what is started. `forward` names signals, `mask` the
    arguments that the record shows as `***`, besides what looks like a secret. `rlimits` maps a
    name of getrlimit(2) without `RLIMIT_` to soft and hard limit (-1: unlimited). `observe`
    (seconds) holds the exited root for one look, `ctty` makes stdin, a terminal, the controlling
    one.
    Raises ValueError or TypeError for what the supervisor would refuse, SupervisorMissing when it
    is not installed.
    """
    words = plain_argv(argv)
    options: list[str] = []

    def add(name: str, value: object) -> None:
        options.extend((name, str(value)))

    if owner is None:
        add("--owner", "none")
    elif owner == "self":
        add("--owner", _self())
    elif owner != "parent":
        add("--owner", _other(owner))
    if state is not None and not record:
        raise ValueError("state says where the record is to be: it needs record=True")
    if record is True:
        run = run or new_run()
        record = record_path(run, state)
    if run is not None:
        if not valid_run(run):
            raise ValueError(f"a run id is 1 to 64 of A-Z a-z 0-9 . _ -, not {run!r}")
        add("--run", run)
    if key is not None:
        add("--key", _word("the key", key))
    if (lock is None) != (epoch is None):
        raise ValueError("lock and epoch belong together: a lock file is one epoch's")
    if lock is not None and epoch is not None:
        add("--lock", _word("the lock", lock))
        add("--epoch", _number("the epoch", epoch))
    if record:
        add("--record", os.path.abspath(_word("the record", record)))
    if control is not None:
        add("--control", _number("the control descriptor", control))
    add("--stdin-end", _choice("stdin_end", stdin_end, ("stop", "ignore")))
    if leftovers != "stop":
        add("--leftovers", _choice("leftovers", leftovers, ("stop", "wait")))
    if contain != "subreaper":
        add("--contain", _choice("contain", contain, ("subreaper", "cgroup", "pidns")))
        if contain == "pidns" and leftovers == "wait":
            raise ValueError('leftovers="wait" does not go with contain="pidns"')
    if timeout is not None:
        add("--timeout", seconds("the timeout", timeout))
    options += grace_options(graces)
    signals = [_signal_name(entry) for entry in forward]
    if signals:
        add("--forward", ",".join(signals))
    kept = sorted({_number("a descriptor", fd) for fd in keep_fds})
    if kept and not close_fds:
        raise ValueError("keep_fds is for close_fds=True; without it the root inherits everything")
    if close_fds:
        options.append("--close-fds")
    for fd in kept:
        add("--keep-fd", fd)
    if new_session:
        options.append("--new-session")
    if ctty:
        options.append("--ctty")
    if observe is not None:
        if contain == "pidns":
            raise ValueError("no observer with pidns: the namespace's init reaps the root unseen")
        options += ["--observe", "--observe-bound", seconds("the observe bound", observe)]
    if argv0 is not None:
        add("--argv0", _word("argv0", argv0))
    if cwd is not None:
        add("--chdir", _word("cwd", cwd))
    if umask is not None:
        if not 0 <= umask <= 0o777:
            raise ValueError(f"a umask is between 0 and 0o777, not {umask!r}")
        add("--umask", f"{umask:03o}")
    if uid is not None:
        add("--uid", _number("a uid", uid))
    if gid is not None:
        add("--gid", _number("a gid", gid))
    if groups is not None:
        add("--groups", ",".join(str(_number("a group", group)) for group in groups))
    for name, limits in (rlimits or {}).items():
        add("--rlimit", _rlimit(name, limits))
    for position in masks(words, mask):
        add("--mask", position)
    return [binary(), *options, "--", *words]


def plain_argv(argv: Sequence[Argument]) -> list[str]:
    """The command as strings. Raises TypeError for a bare string, ValueError for a broken one."""
    if isinstance(argv, str | bytes | os.PathLike):
        raise TypeError(
            "the command is a list of arguments, not one string; "
            f'for a shell: ["sh", "-c", {argv!r}]'
        )
    words = [_word("an argument", argument) for argument in argv]
    if not words or not words[0]:
        raise ValueError("there is no command: the first argument is the program")
    return words


def masks(words: Sequence[str], named: Iterable[int] = ()) -> list[int]:
    """Which arguments the record shows as `***`: those that are named, and what looks a secret."""
    from lastout.evidence.mask import mask_indices

    chosen = set(mask_indices(words))
    for position in named:
        if not 0 <= _number("a mask", position) < len(words):
            raise ValueError(f"mask {position} is none of the {len(words)} arguments (0 is CMD)")
        chosen.add(position)
    return sorted(chosen)


def seconds(what: str, value: float) -> str:
    """A time for the supervisor's argv: never in the form 1e-05, which it does not read."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < 0
    ):
        raise ValueError(f"{what} must be a number of seconds that is not below 0, not {value!r}")
    if value > LONGEST:
        raise ValueError(f"{what} is at most {LONGEST:.0f} seconds (23 days), not {value:g}")
    return f"{value:.6f}".rstrip("0").rstrip(".")


def grace_options(graces: Graces | str | None) -> list[str]:
    """The supervisor's options for these graces; a preset by its name."""
    if isinstance(graces, str):
        resolve(graces)
        return ["--budget", graces]
    wanted = resolve(graces)
    if wanted == DEFAULT:
        return []
    for name, preset in PRESETS.items():
        if (
            wanted == preset and name != "jupyter"
        ):  # jupyter's forwards INT too, which nobody asked for here
            return ["--budget", name]
    if wanted.observe:
        raise ValueError("an observe grace needs an observer; leave it at 0")
    return [
        "--stdin-grace",
        seconds("the stdin grace", wanted.stdin),
        "--term-grace",
        seconds("the term grace", wanted.term),
        "--reap-bound",
        seconds("the reap grace", wanted.reap),
    ]


@functools.cache
def _installed() -> str:
    from importlib.resources import files

    return str(files("lastout") / "_bin" / "lastout-supervisor")


def _self() -> str:
    return _owner(os.getpid())


@functools.cache  # by the pid: a forked child is another owner
def _owner(pid: int) -> str:
    from lastout.proctable import read_stat

    return f"{pid}:{read_stat(pid).start}"


def _other(owner: Any) -> str:
    try:
        return f"{owner.pid:d}:{owner.start:d}"
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f'owner is "self", "parent", None or a ProcessIdentity, not {owner!r}'
        ) from None


def _word(what: str, value: Any) -> str:
    word = os.fsdecode(value)
    if "\0" in word:
        raise ValueError(f"{what} holds a NUL byte, which no argument can: {word!r}")
    return word


def _number(what: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{what} must be a number that is not below 0, not {value!r}")
    return value


def _choice(what: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{what} is {' or '.join(map(repr, choices))}, not {value!r}")
    return value


def _signal_name(entry: str | int) -> str:
    full = entry if isinstance(entry, str) else signal.Signals(entry).name
    name = full.removeprefix("SIG")
    if name in _NEVER_FORWARDED:
        raise ValueError(
            f"{name} cannot be forwarded: TERM stops the run, KILL and STOP are unseen"
        )
    if not hasattr(signal, "SIG" + name):
        raise ValueError(f"there is no signal {entry!r}")
    return name


def _rlimit(name: str, limits: tuple[int, int]) -> str:
    word = name.upper().removeprefix("RLIMIT_")
    soft, hard = limits
    return f"{word}={_limit(word, soft)}:{_limit(word, hard)}"


def _limit(word: str, limit: int) -> str:
    return "unlimited" if limit == -1 else str(_number(f"the limit {word}", limit))
