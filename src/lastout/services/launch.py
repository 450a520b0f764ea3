"""Start the supervisor of one attempt: outside of everybody's tree, bound to no owner's life.

The lock file of the attempt's epoch is made first and what is started takes its lock first, so
whoever comes after a crash can tell an attempt that never came to anything from one that lives.
"""

from __future__ import annotations

import contextlib
import os
import select
import time

import msgspec

from lastout import supervisor
from lastout.durable import now
from lastout.evidence import journal
from lastout.evidence.watch import Watch
from lastout.identity import boot_id, pidns
from lastout.leases import locks
from lastout.recovery.supervisors import START_BOUND
from lastout.services import activation as activations
from lastout.services import layout
from lastout.services.activation import Activation, Attempt
from lastout.services.definition import account_of, environment_of
from lastout.state import new_run, record_file

__all__ = ["Prepared", "await_start", "become", "begin_attempt", "prepare", "spawn"]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to be executed."""

    activation: Activation
    argv: tuple[str, ...]
    env: dict[str, str]
    output: str


def begin_attempt(state: str, activation: Activation) -> Activation:
    """Write down that the supervisor is going to be started. The steps' lock is held."""
    folder = layout.locks_directory(state, activation.service)
    epoch = max([*locks.epochs(folder), 0]) + 1
    run = new_run()
    attempt = Attempt(
        epoch=epoch,
        run=run,
        record=record_file(run, state),
        begun_at=now(),
        boot_id=boot_id(),
    )
    begun = msgspec.structs.replace(activation, attempts=(*activation.attempts, attempt))
    activations.save(state, begun)
    locks.create(
        folder,
        epoch,
        {
            "key": f"service:{activation.service}",
            "run": run,
            "record": attempt.record,
            "boot_id": boot_id(),
            "pidns": pidns(),
            "owner": None,
        },
    )
    locks.tidy(folder, [one for one in locks.epochs(folder) if one < epoch], epoch)
    return begun


def prepare(state: str, activation: Activation) -> Prepared:
    """The argv and the whole environment of its last attempt. Raises ServiceError for an account
    that is not there any more, ValueError for what the supervisor would refuse."""
    definition, attempt = activation.definition, activation.attempts[-1]
    account = account_of(definition)
    argv = supervisor.command(
        definition.argv,
        owner=None,
        graces=definition.budget,
        run=attempt.run,
        key=f"service:{definition.name}",
        record=attempt.record,
        lock=locks_path(state, activation),
        epoch=attempt.epoch,
        stdin_end="ignore",
        contain="cgroup" if definition.contain == "cgroup" else
        "pidns" if definition.contain == "pidns" else "subreaper",
        timeout=definition.timeout_s,
        close_fds=True,
        new_session=True,
        cwd=definition.cwd,
        umask=definition.umask,
        uid=account.uid,
        gid=account.gid,
        groups=account.groups,
    )  # fmt: skip
    return Prepared(
        activation=activation,
        argv=tuple(argv),
        env=environment_of(definition, account, activation.id),
        output=activations.output_path(state, activation),
    )


def locks_path(state: str, activation: Activation) -> str:
    """The lock file of its last attempt."""
    folder = layout.locks_directory(state, activation.service)
    return os.path.join(folder, str(activation.attempts[-1].epoch))


def spawn(prepared: Prepared) -> int:
    """Start it in a session of its own; its pid, our child. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.posix_spawn(
        prepared.argv[0],
        prepared.argv,
        prepared.env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, prepared.output, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def become(prepared: Prepared) -> None:
    """Take its place in the process table: for a manager that has given us a process already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    output = os.open(prepared.output, flags, 0o600)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.execve(prepared.argv[0], list(prepared.argv), prepared.env)


def await_start(pidfd: int, record: str) -> None:
    """Wait until the record says what was started, or why not, or its front has ended.

    At most START_BOUND: afterwards whoever finds nothing there takes it for a start that failed,
    and no front of that epoch can come up any more.
    """
    due = time.monotonic() + START_BOUND
    with Watch() as watch:
        watch.add(os.path.dirname(record))
        poll = select.poll()
        for fd in (pidfd, watch.descriptor):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        while (left := due - time.monotonic()) > 0:
            with contextlib.suppress(OSError):
                if journal.read(record).events:
                    return
            ready = poll.poll(left * 1000)
            if any(fd == pidfd for fd, _ in ready):
                return
            watch.changed()
