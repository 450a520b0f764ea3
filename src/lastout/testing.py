"""For your own tests: a rude agent, and the count of what it left behind.

Survivors are counted by the identities that the programs wrote down themselves, never by name, and
a zombie is none.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lastout import identity
from lastout.identity import Alive, ProcessIdentity

__all__ = ["Present", "RudeAgent", "survivors", "wait_gone"]

ROLES = ("tool", "session", "daemon")


@dataclass(frozen=True, slots=True)
class Present:
    """A process of a rude agent: what it does, and who it is."""

    role: str
    identity: ProcessIdentity


class RudeAgent:
    """An agent that starts what agents start and cleans up nothing; `argv` is how to start it.

    Give it a directory of its own. `roles` are those of `lastout.rude`; the agent obeys SIGTERM
    (and forgets its tools) unless `ignores_term`. Every process ends by itself after `ttl` seconds,
    whatever a test does. When all of them are there the agent prints the line `ready`; after that
    it reads stdin, and ends with it unless it ignores SIGTERM.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        roles: Sequence[str] = ROLES,
        ignores_term: bool = False,
        ttl: float = 60.0,
    ) -> None:
        self.directory = Path(directory)
        self.roll = self.directory / "roll.jsonl"
        self.written = self.directory / "written.txt"
        words = [f"{role}={self.written}" if role == "writer" else role for role in roles]
        program = os.path.join(os.path.dirname(__file__), "rude.py")
        option = ["--ignore"] if ignores_term else []
        self.argv = [
            *(sys.executable, "-I", "-S", program),
            *(str(self.roll), str(ttl), *option, *words),
        ]

    def present(self) -> list[Present]:
        """Every process that has signed the roll so far, dead or alive."""
        try:
            text = self.roll.read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        boot, pidns = identity.boot_id(), identity.pidns()
        signed = (json.loads(line) for line in text.splitlines())
        return [
            Present(
                entry["role"],
                ProcessIdentity(entry["pid"], entry["start"], entry["inode"], boot, pidns),
            )
            for entry in signed
        ]

    def survivors(self) -> list[Present]:
        """Those who are not proven dead now."""
        present = self.present()
        alive = set(survivors(entry.identity for entry in present))
        return [entry for entry in present if entry.identity in alive]

    def end(self, seconds: float = 5.0) -> None:
        """SIGKILL every survivor, by identity, until none is left. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        # Again and again: a role that forks may have signed a child in the meantime.
        while left := self.survivors():
            for entry in left:
                try:
                    identity.signal(entry.identity, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            wait_gone((entry.identity for entry in left), max(0.0, deadline - time.monotonic()))
            if time.monotonic() > deadline:
                raise TimeoutError(f"still alive after {seconds:g} s: {self.survivors()}")


def survivors(identities: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """Those of `identities` that are not proven dead: alive, or nobody can tell."""
    return [entry for entry in identities if identity.still_alive(entry) is not Alive.NO]


def wait_gone(identities: Iterable[ProcessIdentity], seconds: float) -> list[ProcessIdentity]:
    """Wait on their pidfds until all are dead, at most `seconds`; who is left then."""
    left = list(identities)
    deadline = time.monotonic() + seconds
    fds: dict[int, ProcessIdentity] = {}
    poll = select.poll()
    try:
        for entry in left:
            try:
                fd = identity.open_pidfd(entry)
            except (ProcessLookupError, identity.IdentityUnknown):
                continue
            fds[fd] = entry
            poll.register(fd, select.POLLIN)
        while fds and (rest := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(rest * 1000):
                poll.unregister(fd)
                del fds[fd]
                os.close(fd)
        return survivors(left)
    finally:
        for fd in fds:
            os.close(fd)
