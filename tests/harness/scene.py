"""What a test plays on: an owner, supervisors, the programs below them, and the registry of all."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import leftovers
from harness.hub import BOUND_SECONDS, Hub
from harness.identity import Identity
from harness.member import Member
from harness.programs import command, program, supervisor_binary
from harness.record import RecordFile
from harness.run import Run

# Where the absolute values are not the subject: stdin, term and reap in seconds. The reap bound is
# no wait, but what a kernel under load may need; so it is the largest.
SHORT_GRACES = (0.2, 0.5, 5.0)

Owner = Member


def actor(play: str) -> list[str]:
    """The argv of tests/programs/actor.c for a tree written in its words."""
    return [program("actor"), *play.split()]


class Scene:
    """One test's processes. Made by the fixture `scene`, which proves that nothing is left."""

    def __init__(self, directory: Path, before: set[Identity]) -> None:
        self.directory = directory
        self.hub = Hub()
        self.hub.explain = self.explain
        self.members: list[Member] = []
        self.runs: list[Run] = []
        self.before = before
        self._expected: list[Member] = []
        self._popens: list[subprocess.Popen[bytes]] = []
        self._name = f"lastout-test-{os.getpid()}-{secrets.token_hex(4)}"
        # An abstract name: reachable from every directory, user and mount namespace.
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self._name)
        self._listener.listen(4096)
        self.hub.add(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self.members.append(Member(self.hub, connection))

    # ---- the registry -------------------------------------------------------------------------

    def _known(self) -> list[Member]:
        for member in list(self.members):
            while member.named:
                other = Member(self.hub)
                other.adopt_name(*member.named.pop(0))
                self.members.append(other)
        return [member for member in self.members if member.role]

    def all(self, role: str) -> list[Member]:
        return [member for member in self._known() if member.role == role]

    def member(self, role: str, bound: float = BOUND_SECONDS) -> Member:
        """The first process that said this role, waited for."""
        self.hub.until(lambda: self.all(role), f"{role} says hello", bound)
        return self.all(role)[0]

    def notes(self) -> list[str]:
        """All notes of all programs."""
        self._known()
        return [note for member in self.members for note in member.notes]

    def wait_note(self, text: str, bound: float = BOUND_SECONDS) -> None:
        self.hub.until(lambda: text in self.notes(), f"somebody notes {text!r}", bound)

    def until(
        self, condition: Callable[[], object], what: str, bound: float = BOUND_SECONDS
    ) -> None:
        self.hub.until(condition, what, bound)

    # ---- starting -----------------------------------------------------------------------------

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LASTOUT_TEST_")}
        env |= {"LASTOUT_TEST_SOCKET": self._name, "LASTOUT_TEST_TTL": "90"}
        env["LASTOUT_TEST_PROGRAMS"] = str(Path(program("report")).parent)
        return env | dict(more or {})

    def bystander(self, role: str, *, fds: Iterable[int] = ()) -> Member:
        """A process of the test's own, outside every run: it must live."""
        self.start([program("actor"), role], fds=fds)
        member = self.member(role)
        self._expected.append(member)
        return member

    def start(
        self,
        argv: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        fds: Iterable[int] = (),
        env: Mapping[str, str] | None = None,
        new_session: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Starts a program of the test's own, in a session of its own; the test reaps it."""
        popen = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.DEVNULL if stdout is None else stdout,
            stderr=stderr,
            pass_fds=tuple(fds),
            env=self.environment(env),
            cwd=self.directory,
            # No controlling terminal, whatever terminal the tests are run from.
            start_new_session=new_session,
        )
        self._popens.append(popen)
        return popen

    def run(
        self,
        what: str | Sequence[str],
        *options: str,
        graces: tuple[float, float, float] | None = SHORT_GRACES,
        owner: Sequence[str] | None = None,
        via: Sequence[str] = (),
        stdin: str | int = "pipe",
        stdout: int | None = None,
        stderr: int | None = None,
        record: bool | str | Path = True,
        control: bool | int = False,
        fds: Iterable[int] = (),
        env: Mapping[str, str] | None = None,
        binary: str | None = None,
        new_session: bool = True,
    ) -> Run:
        """Starts a supervisor.

        `what` is an actor's play, or an argv. `owner` (flags of owner.c) puts a process between
        the test and the front, which can be killed. `stdin`: "pipe" (the test alone holds the
        write end), "owner" (the owner alone holds it), "null", or a descriptor. `via` goes
        before the supervisor's own argv. `control` may be the size of that socket's buffer in bytes.
        """
        number = len(self.runs) + 1
        output, errors = (self.directory / f"run{number}.{end}" for end in ("out", "err"))
        argv = [*via, binary or supervisor_binary()]
        pass_fds, mine, close_after = list(fds), None, []
        path: RecordFile | None = None
        if record:
            name = self.directory / f"run{number}.jsonl" if record is True else Path(record)
            path = RecordFile(name, self.hub)
            argv += ["--record", str(name)]
        if graces is not None:
            names = ("--stdin-grace", "--term-grace", "--reap-bound")
            argv += [word for pair in zip(names, map(str, graces), strict=True) for word in pair]
        socket_mine: socket.socket | None = None
        if control:
            socket_mine, theirs = socket.socketpair()
            if control is not True:
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, control)
            pass_fds.append(theirs.fileno())
            close_after.append(theirs.fileno())
            argv += ["--control", str(theirs.detach())]
        argv += [*options, "--", *(actor(what) if isinstance(what, str) else what)]

        read_end: int | None = None
        keep: list[str] = []
        if isinstance(stdin, int):
            read_end = stdin
        elif stdin != "null":
            read_end, write_end = os.pipe()
            close_after.append(read_end)
            if stdin == "owner":
                assert owner is not None
                keep = ["--keep", str(write_end)]
                pass_fds.append(write_end)
                close_after.append(write_end)
            else:
                mine = write_end
        if owner is not None:
            argv = [program("owner"), *keep, *owner, "--", *argv]

        def opened(fd: int | None, path: Path) -> int:
            if fd is not None:
                return fd
            own = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            close_after.append(own)
            return own

        popen = self.start(
            argv,
            stdin=read_end,
            stdout=opened(stdout, output),
            stderr=opened(stderr, errors),
            fds=pass_fds,
            env=env,
            new_session=new_session,
        )
        for fd in close_after:
            os.close(fd)
        member: Member | None = None
        if owner is not None:
            before = len(self.all("owner"))
            self.until(lambda: len(self.all("owner")) > before, "the owner says hello")
            member = self.all("owner")[-1]
            self._expected.append(member)
        run = Run(
            self.hub,
            popen,
            owner=member,
            record=path,
            control=socket_mine,
            stdin=mine,
            output=output,
            errors=errors,
            strangers=self.strangers,
        )
        self.runs.append(run)
        return run

    def program(self, name: str, *arguments: str) -> list[str]:
        """The argv of a program of tests/programs."""
        return [*command(name), *arguments]

    def end(self, member: Member) -> None:
        """Ends a bystander and reaps it: its pid is free then."""
        member.dismiss()
        [popen] = [popen for popen in self._popens if popen.pid == member.pid]
        popen.wait()

    # ---- the end ------------------------------------------------------------------------------

    def expect(self, member: Member) -> None:
        """This one may be alive when a run has ended: it is the test's own."""
        self._expected.append(member)

    def strangers(self) -> list[str]:
        """Who is alive below the test and is not its own: one sentence each."""
        expected = {member.pid for member in self._expected}
        found = leftovers.living(self.before)
        return [leftovers.describe(stat) for stat in found if stat.pid not in expected]

    def explain(self) -> str:
        self._known()
        lines = [str(run) for run in self.runs] + ["programs:"]
        lines += [str(member) for member in self.members] + ["alive:"]
        return "\n".join([*lines, *self.strangers()[:20]])

    def close(self) -> None:
        for run in self.runs:
            run.close()
        for member in self._expected:
            if not member.gone and not member.hung_up:
                member.dismiss()
        for member in self.members:
            member.close()
        self.hub.remove(self._listener.fileno())
        self._listener.close()
        self.hub.close()
        for popen in self._popens:
            if popen.returncode is None:
                popen.returncode = -1  # reaped by the sweep, by identity


def fields(event: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Several fields of a line at once."""
    return tuple(event.get(name) for name in names)
