"""Who starts a runner, and from where: never from below somebody's run.

What descends from a run is stopped with it, a runner too. So a caller that is a member of a run
starts nothing; it needs somebody outside who does: a runner that has a job, `lastout job serve`, or
the service process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lastout.above import run_above
from lastout.identity import take
from lastout.jobs import door, layout, queue, reading, sentences
from lastout.jobs.errors import JobsError, NoRoute, NoSuchJob
from lastout.jobs.result import Process

__all__ = [
    "check",
    "inside_run",
    "runner_argv",
    "serving",
    "serving_now",
    "start_runners",
]

_BOOT: Final = (
    "import sys; p = sys.argv.pop(1); p in sys.path or sys.path.insert(0, p); "
    "from lastout.jobs.runner import main; main(sys.argv[1:])"
)
_AWAY: Final = '"$@" </dev/null >/dev/null 2>>"$0" & echo $!'
_KEPT: Final = frozenset({
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TMPDIR",
    "TZ", "USER", "XDG_RUNTIME_DIR", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE",
})  # fmt: skip
_MOST_LOG: Final = 1 << 20


def inside_run() -> bool:
    """Whether this process is a member of a run."""
    return run_above() is not None


def check(state: str, *, held: bool = False) -> None:
    """Raise NoRoute when this process could not have a job started. `held`: the door is ours."""
    if not inside_run():
        return
    if os.path.isdir(layout.jobs_directory(state)):  # a refusal leaves nothing behind
        with contextlib.nullcontext() if held else door.door(state):
            if serving_now(state) or any(slot.resident for slot in door.slots(state)):
                return
    if _service(state):
        return
    raise NoRoute(sentences.NO_ROUTE)


def start_runners(state: str, *, inside: bool = False) -> int:
    """Start as many runners as are due: for what is queued, and for jobs that lost theirs.

    Below a run nothing happens unless `inside`: whoever is outside hears of the queue by itself.
    """
    if not inside and inside_run():
        _ask_service(state)
        return 0
    started = 0
    with door.door(state):
        taken = [slot.job for slot in door.slots(state)]
        waits = (
            entry
            for entry in queue.entries(state)
            if entry.job not in taken and _can_be_run(state, entry.job)
        )
        waiting = sum(1 for _ in islice(waits, door.limit(state)))
        due = waiting + _lost(state) - taken.count(None)
        while due > started:
            slot = door.free_slot(state)
            if slot is None:
                break
            try:
                _spawn(state, *slot)
            finally:
                os.close(slot[1])
            started += 1
    return started


@contextlib.contextmanager
def serving(state: str) -> Iterator[bool]:
    """Be the process that starts runners for those who cannot; False: another one is."""
    path = os.path.join(layout.make(state), "serve")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    with contextlib.ExitStack() as stack:
        with door.door(state):  # whoever only looks takes the lock for a moment, behind the door
            fd = stack.enter_context(layout.try_lock(path))
        yield fd is not None


def serving_now(state: str) -> bool:
    """Whether `lastout job serve` runs for this state directory. The door is held."""
    try:
        with layout.try_lock(os.path.join(layout.jobs_directory(state), "serve")) as fd:
            return fd is None
    except FileNotFoundError:
        return False


def runner_argv(*arguments: str) -> list[str]:
    """The command line of a runner, or of its second half, whatever is on the caller's path."""
    import lastout

    if not sys.executable:
        raise FileNotFoundError(2, "this Python does not know its own program", "sys.executable")
    root = os.path.dirname(os.path.dirname(os.path.abspath(lastout.__file__)))
    return [sys.executable, "-P", "-c", _BOOT, root, *arguments]


def _spawn(state: str, number: int, fd: int) -> None:
    """Double fork by way of a shell, which is gone at once: nobody has to wait for a runner."""
    log = os.path.join(layout.jobs_directory(state), "runners.log")
    with contextlib.suppress(OSError):
        if os.stat(log).st_size > _MOST_LOG:
            os.truncate(log, 0)
    door.note_slot(fd)
    done = subprocess.run(
        ["/bin/sh", "-c", _AWAY, log, *runner_argv("run", state, str(number), str(fd))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=state,
        env={name: value for name, value in os.environ.items() if name in _KEPT},
        pass_fds=(fd,),
        start_new_session=True,
        check=False,
        umask=0o077,
    )
    # Who waits for a job that is still queued watches its runner from the beginning. The runner
    # itself writes into its slot only behind the door, which is ours.
    with contextlib.suppress(OSError, ValueError):
        door.note_slot(fd, runner=Process.of(take(int(done.stdout))))


def _lost(state: str) -> int:
    """How many jobs have begun, have not ended, and have nobody who holds their lock."""
    lost = 0
    for _, job in queue.active(state):
        path = os.path.join(layout.job_directory(state, job), layout.LOCK)
        with contextlib.suppress(OSError), layout.try_lock(path) as fd:
            lost += fd is not None and _can_be_run(state, job)
    return lost


def _can_be_run(state: str, job: str) -> bool:
    """Not what is damaged, or of a later version: no runner of ours would ever have it."""
    try:
        reading.spec(state, job)
        reading.stored(state, job)
        reading.final(state, job)
    except NoSuchJob:  # damaged, or not there at all: a runner takes the latter out of the queue
        return not os.path.exists(layout.job_directory(state, job))
    except JobsError:
        return False
    return True


def _service(state: str) -> bool:
    """Whether the service process could start a runner."""
    try:
        from lastout.services import runner_route
    except ImportError:
        return False
    return bool(runner_route(state))


def _ask_service(state: str) -> None:
    try:
        from lastout.services import request_runner
    except ImportError:
        return
    with contextlib.suppress(OSError):
        request_runner(state)
