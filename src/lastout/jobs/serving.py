"""`lastout job serve`: starts runners for callers who belong to a run and so must not.

It holds nothing of a job: killed, it costs nobody anything, and whoever comes next goes on.
"""

from __future__ import annotations

import os

from lastout.jobs import door, layout, route, sentences
from lastout.jobs.errors import JobsError, NoRoute
from lastout.jobs.waiting import Waiting

__all__ = ["serve"]


def serve(state: str, *, inside: bool = False) -> None:
    """Until a signal ends it. It sleeps until something is queued or a runner ends.

    `inside`: also below a run; the jobs end with that run then. Raises NoRoute below a run without
    it, JobsError when another one serves this state directory, OSError.
    """
    if not inside and route.inside_run():
        raise NoRoute(sentences.SERVE_INSIDE)
    top = layout.make(state)
    with route.serving(state) as ours:
        if not ours:
            raise JobsError(sentences.served(state))
        watched = [os.path.join(top, name) for name in ("queue", "slots")]
        with Waiting(*watched) as waiting:
            while True:
                with door.door(state):
                    waiting.watch([slot.runner for slot in door.slots(state)])
                # After it is known whom to watch: a runner that ends from here on wakes us.
                route.start_runners(state, inside=inside)
                waiting.wait_blocking(None)
