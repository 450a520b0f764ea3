"""The tiers: what each guarantees, word for word, and whether this machine has it, found by trying.

A new tier is one more row here.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from lastout.graces import DEFAULT, MARGIN, PRESETS
from lastout.supervisor import binary

__all__ = ["TIERS", "Tier", "Trial", "attempt"]

_BOUND: Final = PRESETS["instant"].max_stop + 10 * MARGIN

_ENDED = (
    f"is ended within {DEFAULT.max_stop:g} s of a stop (by default), whatever sessions, groups or "
    "double forks it hid in"
)
_ELSEWHERE = (
    "work handed to other services: a container started through a daemon, a command over ssh, at, "
    "systemd-run, a window of a tmux server that was running before"
)
_FOREIGN_NAMESPACE = "processes that were put into a foreign pid namespace (needs privilege)"
_SETUID = (
    "set-uid programs below an unprivileged supervisor: the run then ends as tree-unproven, and its "
    "keeper stays until they have ended"
)
_BOTH = (
    "front and keeper killed by SIGKILL in the same instant: the command itself dies at once, what "
    "it had started lives on, and the record ends without tree-gone"
)


@dataclass(frozen=True, slots=True)
class Tier:
    """A way of holding the tree, by the name that `--contain` takes."""

    name: str
    guarantee: str
    not_covered: tuple[str, ...]
    wants: str = ""
    """What a machine needs for it."""


TIERS: Final = (
    Tier(
        "subreaper",
        f"Everything that descends from the command {_ENDED}, and the kernel itself says (ECHILD) "
        "that nothing is left, also when either front or keeper is killed.",
        (_ELSEWHERE, _FOREIGN_NAMESPACE, _SETUID, _BOTH),
    ),
    Tier(
        "cgroup",
        f"Everything in the run's own cgroup {_ENDED}, set-uid programs included, and the removed "
        "cgroup is the proof.",
        (_ELSEWHERE, "a member that may write to other cgroups (root) and moves itself away"),
        "a writable cgroup v2: systemd's Delegate=yes, root, or a container that is allowed to; "
        "Linux 5.14",
    ),
    Tier(
        "pidns",
        f"Everything in the run's own pid namespace {_ENDED}, and the kernel ends all of it when "
        "the namespace's init ends, also when front and keeper are killed in the same instant.",
        (_ELSEWHERE,),
        "root, or user namespaces for this user",
    ),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a tier held a real tree just now; `why` is what stood against it."""

    tier: Tier
    available: bool
    why: str = ""


def attempt(tier: Tier) -> Trial:
    """Run a command that leaves somebody in a session of his own, and see whether he is ended.

    He holds the pipe that we read: its end is his, whatever the supervisor says.
    """
    words = ["sh", "-c", "(setsid sh -c 'echo here; exec sleep 60' </dev/null &); read x"]
    options = ["--stdin-end", "ignore", "--budget", "instant"]
    if tier.name != "subreaper":
        options += ["--contain", tier.name]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [binary(), "--control", str(theirs.fileno()), *options, "--", *words]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        ) as front:
            theirs.close()
            assert front.stdout is not None
            # He is there before the command ends; or nothing was started, and this is the end.
            select.select([front.stdout], [], [], _BOUND)
            said = os.read(front.stdout.fileno(), 64)
            try:
                _, errors = front.communicate(b"\n", timeout=_BOUND)
            except subprocess.TimeoutExpired:
                ours.close()  # to the supervisor that is its owner's hang-up
                return Trial(tier, False, "who was left behind was not ended in time")
        lines = _lines(ours)
    if front.returncode == 0 and said == b"here\n" and "tree-gone" in lines:
        return Trial(tier, True)
    told = lines.get("failed") or lines.get("refused") or {}
    why = told.get("message") or errors.decode(errors="replace").strip()
    return Trial(tier, False, str(why or f"the trial ended with {front.returncode}"))


def _lines(sock: socket.socket) -> dict[str, dict[str, Any]]:
    """What the supervisor said, by event. It has ended: nothing more will come."""
    sock.setblocking(False)
    data = b""
    try:
        while chunk := sock.recv(65536):
            data += chunk
    except BlockingIOError:
        pass
    return {line["event"]: line for line in map(json.loads, data.splitlines())}
