"""`run_process`: run a command to its end and collect what it wrote."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import anyio
from anyio import BrokenResourceError, EndOfStream

from lastout.errors import RunFailed
from lastout.graces import Graces
from lastout.identity import ProcessIdentity
from lastout.outcome import Outcome
from lastout.process import DEVNULL, PIPE, open_process
from lastout.spawn import Redirection
from lastout.streams import PipeReceiveStream, PipeSendStream
from lastout.supervisor import Argument

if TYPE_CHECKING:
    from lastout.observe import ExitObserver
    from lastout.sole_writer import Grant

__all__ = ["CompletedRun", "RunOptions", "run_process"]


class RunOptions(TypedDict, total=False):
    """What `run_process` hands on to `open_process`."""

    cwd: Argument | None
    env: Mapping[str, str] | None
    graces: Graces | str | None
    key: str | None
    lock: str | os.PathLike[str] | None
    epoch: int | None
    lease: Grant | bool | None
    run: str | None
    record: bool | str | os.PathLike[str] | None
    state: str | os.PathLike[str] | None
    owner: Literal["self", "parent"] | ProcessIdentity | None
    leftovers: Literal["stop", "wait"]
    contain: Literal["subreaper", "cgroup", "pidns"]
    stdin_end: Literal["stop", "ignore"]
    timeout: float | None
    forward: Iterable[str | int]
    pass_fds: Iterable[int]
    umask: int | None
    user: str | int | None
    group: str | int | None
    extra_groups: Iterable[str | int] | None
    rlimits: Mapping[str, tuple[int, int]] | None
    executable: Argument | None
    argv0: str | bytes | None
    start_new_session: bool
    mask: Iterable[int]
    observer: ExitObserver | None


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """What `run_process` returns; `stdout` and `stderr` are None where they were no PIPE."""

    args: Sequence[Argument]
    returncode: int | None
    stdout: bytes | None
    stderr: bytes | None
    outcome: Outcome
    stdout_omitted: int = 0
    """Bytes before those in `stdout` that were more than `output_limit`."""
    stderr_omitted: int = 0

    def check_returncode(self) -> None:
        """Raise RunFailed unless the root ended with 0, and not because it was stopped."""
        stop = self.outcome.stop
        if self.returncode != 0 or (stop is not None and stop.trigger != "stdin-ended"):
            raise RunFailed(self.args, self.stdout, self.stderr, self.outcome)


async def run_process(
    argv: Sequence[Argument],
    *,
    input: bytes | None = None,  # noqa: A002 - subprocess's name for it
    check: bool = False,
    output_limit: int | None = None,
    stdin: Redirection = None,
    stdout: Redirection = PIPE,
    stderr: Redirection = PIPE,
    **options: Unpack[RunOptions],
) -> CompletedRun:
    """Run `argv` until it and everything it started is gone; `options` are `open_process`'s.

    `input` is written to its stdin, whose end is no reason to stop it (`stdin_end="ignore"`);
    without `input` stdin is DEVNULL unless `stdin` says otherwise. `output_limit` keeps only the
    last so many bytes of each stream. Raises RunFailed with `check=True`, else as `open_process`.
    """
    if input is not None:
        if stdin is not None:
            raise ValueError("stdin and input exclude each other")
        stdin = PIPE
    elif stdin is None:
        stdin = DEVNULL
    elif stdin == PIPE:
        raise ValueError("stdin=PIPE would never be written to; give input=, or use open_process")
    if output_limit is not None and output_limit < 0:
        raise ValueError(f"output_limit is a number of bytes from 0, not {output_limit!r}")
    options.setdefault("stdin_end", "ignore")
    sinks = (_Tail(output_limit), _Tail(output_limit))
    async with open_process(argv, stdin=stdin, stdout=stdout, stderr=stderr, **options) as process:
        async with anyio.create_task_group() as tasks:
            if process.stdin is not None:
                tasks.start_soon(_feed, process.stdin, input or b"")
            for stream, sink in zip((process.stdout, process.stderr), sinks, strict=True):
                if stream is not None:
                    tasks.start_soon(_collect, stream, sink)
            outcome = await process.wait()
            tasks.cancel_scope.cancel()
        # Nothing of the tree is left to write: the rest is in the pipes now. Somebody outside the
        # tree may still hold one (it was handed to another service), so its end is not awaited.
        for stream, sink in zip((process.stdout, process.stderr), sinks, strict=True):
            if stream is not None:
                for chunk in stream.rest():
                    sink.add(chunk)
    completed = CompletedRun(
        argv,
        outcome.returncode,
        sinks[0].value() if process.stdout is not None else None,
        sinks[1].value() if process.stderr is not None else None,
        outcome,
        sinks[0].omitted,
        sinks[1].omitted,
    )
    if check:
        completed.check_returncode()
    return completed


class _Tail:
    """Collects chunks, and forgets the oldest beyond its limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self.omitted = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._limit is None:
            return
        while self._size > self._limit:
            excess = self._size - self._limit
            oldest = self._chunks.popleft()
            if len(oldest) > excess:
                self._chunks.appendleft(oldest[excess:])
            gone = min(excess, len(oldest))
            self._size -= gone
            self.omitted += gone

    def value(self) -> bytes:
        return b"".join(self._chunks)


async def _feed(stream: PipeSendStream, data: bytes) -> None:
    try:
        await stream.send(data)
    except BrokenResourceError:
        pass  # it did not want to read all of it, which is its right
    finally:
        stream.close()


async def _collect(stream: PipeReceiveStream, sink: _Tail) -> None:
    try:
        while True:
            sink.add(await stream.receive())
    except (EndOfStream, BrokenResourceError):
        pass
