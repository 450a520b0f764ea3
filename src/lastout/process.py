"""`open_process`: a command that lives as long as a block, on asyncio and on trio."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

import anyio

from lastout import supervisor
from lastout.graces import Graces, resolve
from lastout.handle import Process
from lastout.identity import ProcessIdentity
from lastout.leased import commit, leased
from lastout.reason import Reason
from lastout.spawn import Redirection, Spawned, group_number, spawn, user_number
from lastout.state import locate, new_run, record_file
from lastout.supervisor import Argument

if TYPE_CHECKING:
    from lastout.observe import ExitObserver
    from lastout.sole_writer import Grant

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Process", "open_process"]

PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT


@asynccontextmanager
async def open_process(
    argv: Sequence[Argument],
    *,
    stdin: Redirection = PIPE,
    stdout: Redirection = PIPE,
    stderr: Redirection = None,
    cwd: Argument | None = None,
    env: Mapping[str, str] | None = None,
    graces: Graces | str | None = None,
    key: str | None = None,
    lock: str | os.PathLike[str] | None = None,
    epoch: int | None = None,
    lease: Grant | bool | None = None,
    run: str | None = None,
    record: bool | str | os.PathLike[str] | None = True,
    state: str | os.PathLike[str] | None = None,
    owner: Literal["self", "parent"] | ProcessIdentity | None = "self",
    leftovers: Literal["stop", "wait"] = "stop",
    contain: Literal["subreaper", "cgroup", "pidns"] = "subreaper",
    stdin_end: Literal["stop", "ignore"] = "stop",
    timeout: float | None = None,
    forward: Iterable[str | int] = (),
    pass_fds: Iterable[int] = (),
    umask: int | None = None,
    user: str | int | None = None,
    group: str | int | None = None,
    extra_groups: Iterable[str | int] | None = None,
    rlimits: Mapping[str, tuple[int, int]] | None = None,
    executable: Argument | None = None,
    argv0: str | bytes | None = None,
    start_new_session: bool = False,
    ctty: bool = False,
    mask: Iterable[int] = (),
    observer: ExitObserver | None = None,
    _handle: Callable[[Spawned, str, str | None, float], Process] = Process,
) -> AsyncIterator[Process]:
    """Run `argv` for the length of the block; nothing of it is alive after the block.

    Leaving or cancelling the block stops the run within its bound and waits for the outcome, which
    is then in `process.outcome`. `record=True` writes the record below `state`; `timeout` is in
    seconds. `key` makes the run the key's only writer for the length of the block (`lease=False`
    only names it in the record); `lease` is a grant of the caller's own, who releases it. `observer`
    gets one look at the exited root before it is reaped. The other arguments are subprocess's, or
    `supervisor.command`'s.
    Raises OSError as subprocess does when the command cannot be executed, Refused, Held and
    LeaseUnproven, and ValueError or TypeError for bad arguments before anything starts.
    """
    words = supervisor.plain_argv(argv)
    if executable is not None:
        argv0 = words[0] if argv0 is None else argv0
        words[0] = os.fsdecode(executable)
    run = run or new_run()
    path = record_file(run, locate(state)) if record is True else record or None
    grant = None if isinstance(lease, bool) else lease
    if grant is not None:
        key, lock, epoch, run, path = grant.key, grant.lock, grant.epoch, grant.run, grant.record
    takes_key = lock is None and lease is not False and key is not None
    if (lease is True and key is None) or (takes_key and path is None):
        raise ValueError("a lease needs a key, and the record by which its run is recognised later")
    kept = tuple(pass_fds)
    wanted = resolve(graces)
    look = None if observer is None else observer._register()
    command = functools.partial(
        supervisor.command,
        words,
        owner=owner,
        graces=graces,
        stdin_end=stdin_end,
        leftovers=leftovers,
        contain=contain,
        timeout=timeout,
        forward=forward,
        close_fds=True,
        keep_fds=[fd for fd in kept if fd > 2],
        new_session=start_new_session,
        ctty=ctty,
        observe=None if look is None else look.bound,
        argv0=argv0,
        cwd=cwd,
        umask=umask,
        uid=user_number(user),
        gid=group_number(group),
        groups=None if extra_groups is None else [_group(entry) for entry in extra_groups],
        rlimits=rlimits,
        mask=mask,
    )
    async with AsyncExitStack() as stack:
        ran: list[Process] = []
        if takes_key and key is not None and path is not None:
            command(run=run, record=path)  # bad arguments are told before a key is taken for them
            taken = await stack.enter_async_context(leased(key, run=run, record=path, state=state))
            grant, ran = taken
            lock, epoch = taken[0].lock, taken[0].epoch
        spawned = spawn(
            command(key=key, lock=lock, epoch=epoch, run=run, record=path),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            pass_fds=kept,
            new_session=start_new_session,
        )
        where = None if path is None else _absolute(path)
        try:
            process = _handle(spawned, run, where, wanted.max_stop + (look.bound if look else 0))
        except OSError:
            spawned.close()  # another thread took the last descriptor, which the epoll wants
            raise
        if look is not None and observer is not None:
            process._telling.watch = look.take
            look.connect(process._control.send)
            observer._attach(process)
            del observer  # its owner may drop it, and nobody looks then
        ran.append(process)
        reason: Reason = "abort"
        try:
            await process._start(words[0], None if cwd is None else os.fsdecode(cwd))
            if grant is not None:
                await commit(grant, process)
            yield process
            reason = "completion"
        finally:
            if look is not None:
                look.leave()
            with anyio.CancelScope(shield=True):
                await process._close(reason)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(path))


def _group(entry: str | int) -> int:
    number = group_number(entry)
    assert number is not None
    return number
