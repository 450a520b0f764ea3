"""The tool that triggers what its owner has provided for, by name alone."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from lastout.mcp import answers, sentences
from lastout.mcp.arguments import ServiceStart
from lastout.mcp.desk import Call
from lastout.mcp.threads import in_thread

if TYPE_CHECKING:
    from lastout.services.completion import Completion
    from lastout.services.store import Services

__all__ = ["service_start"]

_OUTPUT = 4_000


async def service_start(call: Call, asked: ServiceStart) -> answers.Activation:
    """Start it, or join the activation that is under way; or only look at one that was started."""
    from lastout.services.errors import StillWaiting
    from lastout.services.store import open_services

    services = open_services(call.desk.store.state)
    joined = False
    if asked.activation:
        activation = asked.activation
    else:
        begun = await in_thread(services.start, asked.name)
        activation, joined = begun.activation, begun.joined
    found: Completion | None = None
    try:
        # Its thread is left alone when the call is cancelled: the service goes on anyway.
        wait = partial(services.wait, asked.name, activation, asked.wait_s)
        found = await anyio.to_thread.run_sync(wait, abandon_on_cancel=True)
    except StillWaiting:
        pass
    return await in_thread(_seen, services, asked.name, activation, joined, found)


def _seen(
    services: Services, name: str, activation: str, joined: bool, found: Completion | None
) -> answers.Activation:
    if found is None:
        status = services.status(name, activation)
        return answers.Activation(
            service=name,
            activation=activation,
            state=status.state,
            joined=joined,
            why=status.note,
            next=sentences.SERVICE_GOES_ON,
        )
    return answers.Activation(
        service=name,
        activation=activation,
        state="completed",
        joined=joined,
        failed=found.failed,
        exit_code=found.code,
        signal=found.signal,
        why=found.why,
        ended_by=found.ended_by,
        stopped_count=found.stopped_count,
        remaining_count=found.remaining,
        output=_end_of_file(services.output(name, activation)),
    )


def _end_of_file(path: str) -> str | None:
    """The last of what it printed; None where there is nothing to be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _OUTPUT))
            text = file.read(_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return None
    return sentences.left_out(size - _OUTPUT) + text if size > _OUTPUT else text
