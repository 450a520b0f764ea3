"""Is anything of it still running? What can be seen of a run right now, beside its record.

The only claims that rest on something else than lines: on identities asked of the kernel at this
moment. An identity that cannot be asked (another pid namespace, another machine) gives no answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lastout import identity
from lastout.evidence.claims import Claim, Grade, Reading, reference
from lastout.evidence.events import Identity, Started, TreeGone
from lastout.evidence.journal import Contents
from lastout.identity import Alive, ProcessIdentity

__all__ = ["now"]


def now(
    contents: Contents,
    *,
    alive: Callable[[ProcessIdentity], Alive] = identity.still_alive,
    boot_id: Callable[[], str] = identity.boot_id,
) -> tuple[Claim, ...]:
    """What is alive of a run whose record does not say that its tree is gone; else nothing."""
    reading = Reading(contents)
    started = reading.first(Started)
    if started is None or isinstance(reading.final, TreeGone):
        return ()
    at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    here = boot_id()
    if started.boot_id and here and started.boot_id != here:
        events = (reference(started), "now:boot")
        return (Claim("now-other-boot", Grade.OBSERVED, events),)
    answers = {
        role: alive(_whole(process, started))
        for role, process in (
            ("root", started.root),
            ("keeper", started.keeper),
            ("front", started.front),
        )
    }
    events = (reference(started), "now:processes")
    pids = {"root": started.root.pid, "keeper": started.keeper.pid, "front": started.front.pid}
    facts = {
        answer.value: [
            {"role": role, "pid": pids[role]} for role in answers if answers[role] is answer
        ]
        for answer in Alive
    }
    unknown = all(answer is Alive.UNKNOWN for answer in answers.values())
    grade = Grade.NOT_REPORTED if unknown else Grade.OBSERVED
    return (Claim("now-alive", grade, events, at, facts),)


def _whole(process: Identity, started: Started) -> ProcessIdentity:
    return ProcessIdentity(
        process.pid, process.start, process.inode, started.boot_id, started.pidns
    )
