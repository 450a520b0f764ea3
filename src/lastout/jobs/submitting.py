"""Making a job: complete and durable before anybody can see it, or not at all.

In this order, each step safe to be the last: the directory is made under a name that nobody looks
at, its lock held; behind the door the queue entry, then the name, then the rename that makes the
job; then everything is made durable, and runners are started. What a submitter leaves that dies on
the way is swept by its free lock; a job that it had made is run by whoever comes next.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import time
from collections.abc import Mapping

import msgspec

from lastout.durable import now, sync_directory, sync_write
from lastout.graces import PRESETS
from lastout.here import working_directory
from lastout.jobs import door, layout, queue, reading, route, sentences
from lastout.jobs.errors import NameTaken, NoSuchJob
from lastout.jobs.queue import Entry
from lastout.jobs.results import set_aside
from lastout.jobs.spec import VERSION, AgentTurn, Kind, Spec
from lastout.state import new_run

__all__ = ["check_name", "completed", "made", "named", "new_spec", "submit", "take_name"]

_TIERS = ("subreaper", "cgroup", "pidns")
_LONGEST_NAME = 200


def submit(state: str, work: Kind) -> str:
    """Queue a job; its id. Raises NameTaken, NoRoute, ValueError or OSError."""
    spec = new_spec(work)
    route.check(state)
    layout.make(state)
    entry = Entry(spec.queued_ns, layout.by_digest(spec.by), spec.id)
    top = layout.jobs_directory(state)
    half = os.path.join(top, layout.HALF + spec.id)
    whole = layout.job_directory(state, spec.id)
    try:
        lock = made(half, spec)
        try:
            with door.door(state):
                route.check(state, held=True)
                check_name(state, spec)
                queue.enter(state, entry)
                try:
                    take_name(state, spec)
                    os.rename(half, whole)
                except BaseException:
                    queue.discard(state, entry)
                    raise
            try:
                sync_directory(top)
                sync_directory(os.path.join(top, "queue"))
            except BaseException:
                # Its lock is still ours: nobody has begun it.
                with door.door(state):
                    queue.discard(state, entry)
                    os.rename(whole, half)
                raise
        finally:
            os.close(lock)
    except BaseException:
        import shutil

        shutil.rmtree(half, ignore_errors=True)
        raise
    queue.ring(state, entry)
    with contextlib.suppress(OSError):
        # The job is there: whoever looks at it next tries again.
        route.start_runners(state)
    return spec.id


def new_spec(work: Kind) -> Spec:
    """What is to be written down, under a new id. Raises what `completed` does."""
    return Spec(
        version=VERSION,
        id=new_run(),
        queued_at=now(),
        queued_ns=time.time_ns(),
        umask=_umask(),
        work=completed(work),
    )


def completed(work: Kind) -> Kind:
    """With the caller's directory, environment and name where nothing else was said.

    Raises ValueError or TypeError for what could not be run.
    """
    from lastout.supervisor import plain_argv

    cwd = os.path.abspath(work.cwd) if work.cwd is not None else working_directory()
    # What the caller merely has and cannot be written as text is left out; what it names is not.
    env = _writable(os.environ) if work.env is None else dict(work.env)
    if any("=" in name or "\0" in name + value for name, value in env.items()):
        raise ValueError("a name of the environment holds no '=', and nothing of it a NUL byte")
    by = work.by or _login()
    if work.name is not None:
        _check_name(work.name)
    _check_seconds("timeout", work.timeout, zero=False)
    if isinstance(work, AgentTurn):
        _check_seconds("keep", work.keep, zero=True)
        if not work.agent:
            raise ValueError("which agent? See `lastout host`")
        if "\0" in work.prompt:
            raise ValueError("the prompt holds a NUL byte")
        return _clean(msgspec.structs.replace(work, cwd=cwd, env=env, by=by))
    if work.graces is not None and work.graces not in PRESETS:
        raise ValueError(f"no preset is named {work.graces!r}; there are {', '.join(PRESETS)}")
    if work.contain not in _TIERS:
        raise ValueError(f"no tier is named {work.contain!r}; there are {', '.join(_TIERS)}")
    if work.capture and work.output is not None:
        raise ValueError("output is for capture=False; with capture the job keeps it")
    output = None if work.output is None else os.path.abspath(os.path.join(cwd, work.output))
    return _clean(
        msgspec.structs.replace(
            work, argv=tuple(plain_argv(work.argv)), cwd=cwd, env=env, by=by, output=output
        )
    )


def named(state: str, name: str) -> str | None:
    """The job that was given this name last."""
    try:
        with open(_name_path(state, name), "rb") as file:
            word = file.read(64).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    return word if layout.is_id(word) else None


def made(half: str, spec: Spec) -> int:
    """The job's directory, durable, under a name that nobody looks at; the descriptor of its lock,
    held."""
    lock = _locked(half)
    try:
        for name in (layout.INBOX, layout.TAKEN):
            os.mkdir(os.path.join(half, name), 0o700)
        set_aside(half)
        sync_write(os.path.join(half, layout.SPEC), msgspec.json.encode(spec))
        sync_directory(half)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _locked(half: str) -> int:
    """The directory with its lock, held. Whoever sweeps may take it for one that a dead submitter
    left, as long as the lock is not held: then it is made again."""
    path = os.path.join(half, layout.LOCK)
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(half, 0o700)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_ino == os.stat(path).st_ino:
                return lock
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def check_name(state: str, spec: Spec) -> None:
    """Raises NameTaken. The door is held."""
    if spec.name is None or (job := named(state, spec.name)) is None:
        return
    try:
        if reading.final(state, job) is not None:
            return
        status = reading.status(state, job)
    except NoSuchJob:
        return  # it was removed, or its submitter died before it was there
    raise NameTaken(sentences.name_taken(spec.name, job, status.state), job)


def take_name(state: str, spec: Spec) -> None:
    """Before the job is there: a name that means nothing is free."""
    if spec.name is not None:
        path = _name_path(state, spec.name)
        sync_write(path + ".new", spec.id.encode("ascii"), new=False)
        os.rename(path + ".new", path)
        sync_directory(os.path.dirname(path))


def _name_path(state: str, name: str) -> str:
    return os.path.join(layout.jobs_directory(state), "names", layout.digest(name))


def _check_name(name: str) -> None:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ValueError(f"a name is 1 to {_LONGEST_NAME} printable characters, not {name!r}")
    if layout.is_id(name):
        raise ValueError(f"{name!r} looks like the id of a job")


def _check_seconds(what: str, value: float | None, *, zero: bool) -> None:
    if value is None:
        return
    from lastout.supervisor import LONGEST

    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{what} is a number of seconds, not {value!r}")
    if value < 0 or (value == 0 and not zero):
        raise ValueError(f"{what} must be above 0 s, not {value:g}")
    if value > LONGEST:
        raise ValueError(f"{what} is at most {LONGEST:.0f} seconds (23 days), not {value:g}")


def _clean(work: Kind) -> Kind:
    """What msgspec cannot write: a surrogate in an argument, a value that is no JSON."""
    try:
        msgspec.json.encode(work)
    except (TypeError, ValueError) as error:
        why = str(error)
        if isinstance(error, UnicodeEncodeError):  # a byte of an argv or a path
            why = f"{error.object[max(0, error.start - 20) : error.end + 20]!r} is not UTF-8"
        raise ValueError(f"the job cannot be written down: {why}") from None
    return work


def _writable(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if not any("\ud800" <= letter <= "\udfff" for letter in name + value)
    }


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _umask() -> int | None:
    """Without changing it, which other threads would feel (proc_pid_status(5))."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
    return None
