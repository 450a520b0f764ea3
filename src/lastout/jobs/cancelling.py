"""Cancelling a job at every moment of its life."""

from __future__ import annotations

import contextlib
import os
import signal

from lastout import identity
from lastout.jobs import door, inbox, layout, queue, reading, route, sentences
from lastout.jobs.desk import Desk
from lastout.jobs.queue import Entry
from lastout.jobs.result import nothing_ran
from lastout.jobs.spec import Spec
from lastout.jobs.work import Cancel

__all__ = ["cancel"]


def cancel(state: str, spec: Spec, request: Cancel) -> bool:
    """Ask for the end; False when there was one. Raises OSError when it cannot be written down."""
    job = spec.id
    directory = layout.job_directory(state, job)
    if reading.final(state, job) is not None:
        return False
    try:
        inbox.put(directory, request, f"{request.reason} {request.by} {request.grace}")
    except FileNotFoundError:
        return False  # its end is being published
    if _while_it_waits(state, spec, request):
        return True
    # The runner says that it goes to sleep before it looks into the inbox for the last time; we
    # have put the request there before we look at what it says. One of the two sees the other. The
    # supervisor passes SIGCONT on and says so, and what it says is what wakes the runner.
    stored = reading.stored(state, job)
    if stored is not None and not stored.resident and stored.front is not None:
        with contextlib.suppress(OSError, identity.IdentityUnknown):
            identity.signal(stored.front.identity, signal.SIGCONT)
    with contextlib.suppress(OSError):
        route.start_runners(state)  # where its runner is gone
    return True


def _while_it_waits(state: str, spec: Spec, request: Cancel) -> bool:
    """Nobody has begun it: its end is published here."""
    path = os.path.join(layout.job_directory(state, spec.id), layout.LOCK)
    with door.door(state), layout.try_lock(path) as fd:
        if fd is None or reading.stored(state, spec.id) is not None:
            return False
        # Before the inbox is closed: whoever dies from here on leaves a job that has begun and lost
        # its runner, never one that the next runner would take although its end was asked for.
        with contextlib.suppress(FileNotFoundError):  # it has begun, and its runner is lost
            queue.begin(state, Entry(spec.queued_ns, layout.by_digest(spec.by), spec.id))
        desk = Desk(state, spec)
        try:
            desk.publish(
                nothing_ran(request.reason, sentences.never_started(request.by), request.by, turn=1)
            )
        finally:
            desk.close()
        return True
