"""A trigger: accept an activation, or join the one that is under way; and start what is accepted."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from lastout.services import activation as activations
from lastout.services import launch, layout, sentences, steps
from lastout.services.activation import Activation, Asker
from lastout.services.definition import Definition, load
from lastout.services.errors import AlreadyRunning, ServiceError
from lastout.services.steps import Found, State

__all__ = ["Accepted", "accept", "start"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An activation that is durable. `joined`: it was there before."""

    activation: Activation
    joined: bool
    found: Found


def accept(
    state: str, definition: Definition, by: Asker, *, new: bool, request: str | None
) -> Accepted:
    """Accept a trigger. The steps' lock is held.

    A request's name that is known is that request again. Raises AlreadyRunning with `new`, OSError;
    then nothing was written.
    """
    name = definition.name
    if request is not None and (same := activations.find(state, name, request)) is not None:
        return Accepted(same, True, steps.settle(state, same))
    live = [steps.settle(state, one) for one in activations.open_ones(state, name)]
    live = [found for found in live if found.state is not State.ENDED]
    if live:
        if new:
            raise AlreadyRunning(
                sentences.already_running(name, live[-1].activation.id), live[-1].activation.id
            )
        return Accepted(live[-1].activation, True, live[-1])
    activations.prune(state, definition)
    made = activations.create(state, definition, by, request)
    return Accepted(made, False, Found(State.ACCEPTED, made))


def start(state: str, name: str, activation: str) -> tuple[Found, int | None]:
    """Start what is accepted and not started, and look at everything else; our child's pidfd, if
    there is one.

    The steps' lock is held. Only for whoever is outside of every run. Raises OSError.
    """
    one = activations.load(state, name, activation)
    found = steps.settle(state, one, fence=True)
    if found.state is not State.ACCEPTED:
        return found, None
    if activations.asked_to_stop(state, one) is not None:
        return steps.give_up(state, one, "it was stopped before it was started"), None
    if len(one.attempts) >= steps.MOST_ATTEMPTS:
        why = f"{len(one.attempts)} starts of its supervisor came to nothing"
        return steps.give_up(state, one, why), None
    begun = launch.begin_attempt(state, one)
    try:
        pid = launch.spawn(launch.prepare(state, begun))
    except (ServiceError, ValueError, OSError) as error:
        return steps.give_up(state, begun, f"it could not be started: {error}"), None
    # Our child and not reaped: the number is its own.
    pidfd = os.pidfd_open(pid)
    try:
        launch.await_start(pidfd, begun.attempts[-1].record)
        return steps.settle(state, begun), pidfd
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(pidfd)
        raise


def take_over(state: str, name: str) -> None:
    """Become the supervisor of the activation that waits: for a unit of systemd, whose process
    this is. Returns when there is nothing to start.

    The lock of the steps is let go by the exec itself.
    """
    with layout.alone(state, name):
        load(state, name)
        for one in activations.open_ones(state, name):
            found = steps.settle(state, one, fence=True)
            if found.state is not State.ACCEPTED:
                continue
            if activations.asked_to_stop(state, one) is not None:
                steps.give_up(state, one, "it was stopped before it was started")
                continue
            begun = launch.begin_attempt(state, one)
            try:
                prepared = launch.prepare(state, begun)
            except (ServiceError, ValueError) as error:
                steps.give_up(state, begun, f"it could not be started: {error}")
                continue
            launch.become(prepared)
