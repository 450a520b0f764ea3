"""Wait for an activation's completion, whoever publishes it: on inotify and pidfds, no polling.

The waiting side needs no service process: when the supervisor has gone it looks itself, and
publishes what nobody has published yet.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from errno import EACCES, EPERM, EROFS

from lastout import identity
from lastout.evidence.watch import Watch
from lastout.recovery.supervisors import START_BOUND
from lastout.services import activation as activations
from lastout.services import completion as completions
from lastout.services import layout, sentences, steps
from lastout.services.completion import Completion
from lastout.services.errors import Busy, StillWaiting
from lastout.services.steps import Found, State
from lastout.services.wire import Connection

__all__ = ["look", "wait"]

_AGAIN = 0.25  # somebody else is taking this step right now
_LONGEST = 86400.0  # of one sleep: what is longer, or has no end, is slept in several


def look(state: str, name: str, activation: str) -> Found:
    """Where it is, with whatever step of it is due and may be taken by anybody. Raises
    NoSuchService, Busy, OSError."""
    done = completions.load(state, name, activation)
    one = activations.load(state, name, activation)
    if done is not None and one.definition.result is None:
        return Found(State.ENDED, one, completion=done)
    with layout.alone(state, name):
        return steps.settle(state, activations.load(state, name, activation))


def wait(
    state: str,
    name: str,
    activation: str,
    timeout: float | None,
    connection: Connection | None = None,
) -> Completion:
    """Wait for it, at most `timeout` seconds.

    With `connection`, an activation that was not started yet is given up when the service process
    goes away. Raises StillWaiting; the activation is as it was.
    """
    if timeout is not None and math.isnan(timeout):
        raise ValueError(f"the timeout is a number of seconds, not {timeout}")
    due = None if timeout is None else time.monotonic() + timeout
    with Watch() as watch, contextlib.ExitStack() as held:
        watch.add(layout.activation_directory(state, name, activation))
        known: dict[int, int] = {}
        lost = connection is None
        starting: float | None = None
        while True:
            again: float | None = None
            problem = sentences.GOES_ON
            try:
                found = look(state, name, activation)
            except (Busy, OSError) as error:
                done = completions.load(state, name, activation)
                if done is not None:
                    return done
                problem = sentences.not_settled(error)
                again = _again(error)
            else:
                if found.completion is not None:
                    return found.completion
                if found.state is State.STARTING:
                    starting = starting or time.monotonic()
                    again = START_BOUND
                    watch.add(os.path.dirname(found.activation.attempts[-1].record))
                else:
                    starting = None
                stuck = starting is not None and time.monotonic() - starting >= START_BOUND
                _check(name, found, lost and (stuck or found.state is State.ACCEPTED))
                for one in found.supervisors:
                    if one.pid not in known:
                        with contextlib.suppress(OSError, identity.IdentityUnknown):
                            known[one.pid] = identity.open_pidfd(one)
                            held.callback(os.close, known[one.pid])
                if found.state is State.RUNNING and not found.supervisors:
                    again = _AGAIN  # both ended between two looks
            left = None if due is None else due - time.monotonic()
            if left is not None and left <= 0:
                raise StillWaiting(sentences.not_over(name, activation, problem))
            wanted = [each for each in (left, again) if each is not None]
            ready = _sleep(watch, known, None if lost else connection, min(wanted, default=None))
            if connection is not None and connection.fileno() in ready:
                lost = True
            for pid, fd in list(known.items()):
                if fd in ready:
                    known[pid] = -1  # gone: seen once


def _again(error: Exception) -> float | None:
    """When to look again by oneself; None where only others can publish, and the file tells it."""
    if isinstance(error, Busy):
        return _AGAIN
    forbidden = isinstance(error, OSError) and error.errno in (EACCES, EPERM, EROFS)
    return None if forbidden else steps.RETRY


def _check(name: str, found: Found, not_started: bool) -> None:
    one = found.activation.id
    if found.state is State.UNPROVEN and found.verdict is not None:
        raise StillWaiting(sentences.unproven(name, one, found.verdict.sentence))
    if not_started and found.activation.definition.manager == "lastout":
        raise StillWaiting(sentences.not_started_yet(name, one))


def _sleep(
    watch: Watch, known: dict[int, int], connection: Connection | None, seconds: float | None
) -> set[int]:
    poll = select.poll()
    fds = [watch.descriptor, *known.values()]
    if connection is not None:
        fds.append(connection.fileno())
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(None if seconds is None else min(seconds, _LONGEST) * 1000)}
    watch.changed()
    return ready
