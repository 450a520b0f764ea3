"""What `lastout service` shows, and how it sends its service process into the background."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from lastout.above import run_above
from lastout.evidence.words.parts import visible
from lastout.services import sentences
from lastout.services.completion import Completion
from lastout.services.errors import NoRoute, NotItsOwner
from lastout.services.store import Begun, Status, open_services

__all__ = ["detail", "document", "joined", "row", "serve_detached", "status_lines", "told"]


def told(begun: Begun) -> dict[str, Any]:
    """A trigger's answer for programs."""
    return {
        "service": begun.service,
        "activation": begun.activation,
        "joined": begun.joined,
        "state": begun.state,
        "run": begun.run,
    }


def document(done: Completion) -> dict[str, Any]:
    """A completion record for programs."""
    found: dict[str, Any] = msgspec.to_builtins(done)
    return found


def detail(status: Status) -> dict[str, Any]:
    """A service for programs. Values of its environment are not shown."""
    one = status.definition
    found: dict[str, Any] = {
        "service": one.name,
        "argv": list(one.argv),
        "cwd": one.cwd,
        "env_names": sorted(one.env),
        "manager": one.manager,
        "user": one.user,
        "group": one.group,
        "timeout_s": one.timeout_s,
        "result": one.result,
        "state": status.state,
        "note": status.note,
    }
    if status.found is not None:
        activation = status.found.activation
        attempt = activation.attempts[-1] if activation.attempts else None
        found |= {
            "activation": activation.id,
            "requested_at": activation.requested_at,
            "requested_by": msgspec.to_builtins(activation.requested_by),
            "run": attempt.run if attempt else None,
            "record": attempt.record if attempt else None,
            "supervisors": [each.to_record() for each in status.found.supervisors],
        }
        if status.found.completion is not None:
            found["completion"] = document(status.found.completion)
    return found


def status_lines(status: Status) -> Iterator[str]:
    """A service and its activation, for people."""
    one, found = status.definition, status.found
    yield f"service     {one.name}, run by {one.manager}" + (f" as {one.user}" if one.user else "")
    yield f"what        {visible(shlex.join(one.argv))}"
    yield f"where       {visible(one.cwd)}"
    if one.timeout_s is not None:
        yield f"deadline    {one.timeout_s:g}s"
    if one.result is not None:
        yield f"result      {visible(one.result)}"
    yield f"state       {status.state}" + (f": {visible(status.note)}" if status.note else "")
    if found is None:
        return
    yield f"activation  {found.activation.id}, asked for at {found.activation.requested_at}"
    if found.activation.attempts:
        run = found.activation.attempts[-1].run
        yield f"run         {run}  (lastout why {run})"
    done = found.completion
    if done is not None:
        yield f"outcome     {'failed' if done.failed else 'done'}: {visible(done.why)}"
        if done.by:
            yield f"ended by    {visible(done.by)}"
        if done.stopped:
            pids = ", ".join(str(each["pid"]) for each in done.stopped[:8])
            yield f"stopped     {done.stopped_count}: {pids}" + ", …" * (len(done.stopped) > 8)
        if not done.tree_gone:
            yield "left        nobody can say whether something of it is still running"


def joined(begun: Begun) -> str:
    """For a start that began nothing."""
    return sentences.joined(begun.service, begun.activation, ended=begun.state == "ended")


def row(status: Status | tuple[str, str]) -> tuple[str, ...]:
    """A service in one line."""
    if not isinstance(status, Status):
        return (status[0], "-", "-", "unreadable", status[1])
    found = status.found
    done = found.completion if found else None
    why = done.why if done else status.note or ""
    return (
        status.definition.name,
        status.definition.manager,
        found.activation.id if found else "-",
        status.state,
        why,
    )


def serve_detached(state: str) -> dict[str, int]:
    """Start the service process in a session of its own; its identity, once it answers.

    Raises NotItsOwner inside of a run, NoRoute when it does not come up.
    """
    run = run_above()
    if run is not None:
        raise NotItsOwner(sentences.member_asks("the service process", run, token=False))
    services = open_services(state)
    if services.serving() is not None:
        raise NoRoute(sentences.SERVES_ALREADY)
    log = os.open(
        os.path.join(state, "service.log"),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )
    ready, ours = os.pipe2(os.O_CLOEXEC)
    try:
        # By way of a shell that is gone at once: nobody has to wait for it, and its end is nobody's.
        script = '"$@" </dev/null >/dev/null & exit 0'
        subprocess.run(
            ["/bin/sh", "-c", script, "sh", sys.executable, *_argv(state, ours)],
            stdin=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(ours,),
            start_new_session=True,
            check=False,
            umask=0o077,
        )
        os.close(ours)
        ours = -1
        # A byte when it serves; the end of the pipe when it has ended instead.
        served = os.read(ready, 1)
    finally:
        os.close(ready)
        os.close(log)
        if ours >= 0:
            os.close(ours)
    process = services.serving() if served else None
    if process is None:
        raise NoRoute(f"the service process did not come up: see {state}/service.log")
    return process


def _argv(state: str, ready: int) -> list[str]:
    import lastout

    root = os.path.dirname(os.path.dirname(os.path.abspath(lastout.__file__)))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from lastout.services.server import serve_ready; serve_ready(sys.argv[2], int(sys.argv[3]))"
    )
    return ["-P", "-c", script, root, state, str(ready)]
