"""A trigger: accept an activation, or join the one that is under way; and start what is accepted."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from lastout.errors import LastoutError
from lastout.services import activation as activations
from lastout.services import launch, layout, sentences, steps
from lastout.services.activation import Activation, Asker
from lastout.services.definition import Definition, load
from lastout.services.errors import AlreadyRunning
from lastout.services.steps import Found, State

__all__ = ["Accepted", "accept", "start", "take_over"]


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
    found, prepared = _due(state, activations.load(state, name, activation))
    if prepared is None:
        return found, None
    try:
        pid = launch.spawn(prepared)
    except OSError as error:
        return _not_started(state, prepared.activation, error), None
    # Our child and not reaped: the number is its own.
    pidfd = os.pidfd_open(pid)
    try:
        launch.await_start(pidfd, prepared.activation.attempts[-1].record)
        return steps.settle(state, prepared.activation), pidfd
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
            _, prepared = _due(state, one)
            if prepared is not None:
                try:
                    launch.become(prepared)
                except OSError as error:
                    _not_started(state, prepared.activation, error)


def _due(state: str, one: Activation) -> tuple[Found, launch.Prepared | None]:
    """The next attempt, written down, where one is due."""
    found = steps.settle(state, one, fence=True)
    if found.state is not State.ACCEPTED:
        return found, None
    if activations.asked_to_stop(state, one) is not None:
        return steps.give_up(state, one, sentences.STOPPED_BEFORE), None
    if len(one.attempts) >= steps.MOST_ATTEMPTS:
        why = sentences.came_to_nothing(len(one.attempts))
        return steps.give_up(state, one, why), None
    begun = launch.begin_attempt(state, one)
    try:
        return found, launch.prepare(state, begun)
    except (LastoutError, ValueError) as error:
        return _not_started(state, begun, error), None


def _not_started(state: str, one: Activation, error: Exception) -> Found:
    return steps.give_up(state, one, sentences.not_started(error))
