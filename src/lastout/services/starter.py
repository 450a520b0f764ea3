"""The way out for jobs: a caller below a supervisor has its runner started from outside."""

from __future__ import annotations

import os
import sys

from lastout.services import wire
from lastout.services.errors import ServiceError

__all__ = ["request_runner", "runner_argv", "runner_route"]


def request_runner(state: str) -> bool:
    """Have the job runners that are due for this state directory started outside of every run.

    For `lastout.jobs` (route (b)): whoever sits below a supervisor queues the job first, durably,
    and then calls this. The service process of the same state directory, or a unit of systemd,
    calls `lastout.jobs.route.start_runners(state)` in a process of its own. Asking twice is
    harmless. True: it was handed over; the answer does not wait for the runner. False: nobody is
    there who could. Raises nothing but what the operating system raises (OSError).
    """
    try:
        connection = wire.connect(state)
        if connection is not None:
            try:
                connection.ask("runner")
                return True
            finally:
                connection.close()
    except ServiceError:
        return False
    from lastout.services.systemd import run_apart

    return run_apart(runner_argv(state))


def runner_route(state: str) -> bool:
    """Whether `request_runner` would find somebody."""
    try:
        connection = wire.connect(state)
    except (ServiceError, OSError):
        return False
    if connection is not None:
        connection.close()
        return True
    from lastout.services.systemd import choose

    return choose() != "lastout"


def runner_argv(state: str) -> list[str]:
    """What starts the job runners that are due, executed outside of every run."""
    import lastout

    root = os.path.dirname(os.path.dirname(os.path.abspath(lastout.__file__)))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from lastout.jobs.route import start_runners; start_runners(sys.argv[2])"
    )
    return [sys.executable, "-P", "-c", script, root, state]
