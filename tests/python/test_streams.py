"""The pipes: nothing lost, nothing hangs, memory bounded, anyio's own errors."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import anyio
import pytest
from anyio import BrokenResourceError, BusyResourceError, ClosedResourceError, EndOfStream

import lastout
from lastout.streams import PipeReceiveStream

pytestmark = pytest.mark.anyio


async def test_all_of_a_large_output_arrives_in_bounded_memory(state: Path) -> None:
    """200 MB; the program waits for us in between, and we keep no more than one chunk."""
    size = 200 << 20
    program = (
        f"import sys\nb = bytes(1 << 20)\nfor _ in range({size >> 20}): sys.stdout.buffer.write(b)"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = 0
    argv = [sys.executable, "-I", "-S", "-c", program]
    async with lastout.open_process(argv, state=state) as process:
        assert process.stdout is not None
        try:
            while True:
                got += len(await process.stdout.receive(1 << 20))
        except EndOfStream:
            pass
        outcome = await process.wait()
    assert (got, outcome.returncode) == (size, 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


async def test_stderr_filled_before_stdout(state: Path) -> None:
    script = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero"
    async with lastout.open_process(
        ["sh", "-c", script], stderr=lastout.PIPE, state=state
    ) as process:
        got = {"stdout": 0, "stderr": 0}

        async def read(name: str, stream: PipeReceiveStream | None) -> None:
            assert stream is not None
            async for chunk in stream:
                got[name] += len(chunk)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "stdout", process.stdout)
            tasks.start_soon(read, "stderr", process.stderr)
        assert (await process.wait()).returncode == 0
    assert got == {"stdout": 1000000, "stderr": 1000000}


async def test_a_large_last_write_is_there_after_the_end(state: Path) -> None:
    script = "head -c 60000 /dev/zero"
    async with lastout.open_process(["sh", "-c", script], state=state) as process:
        await process.wait()
        assert process.stdout is not None
        got = b""
        try:
            while True:
                got += await process.stdout.receive()
        except EndOfStream:
            pass
    assert len(got) == 60000


async def test_the_end_of_output_is_no_end_of_the_run(state: Path) -> None:
    script = "exec >&-; read x; exit 6"
    async with lastout.open_process(["sh", "-c", script], state=state) as process:
        assert process.stdout is not None
        with pytest.raises(EndOfStream):
            await process.stdout.receive()
        assert process.stdin is not None
        await process.stdin.send(b"go\n")
        assert (await process.wait()).returncode == 6


async def test_the_end_of_the_run_is_no_wait_for_the_end_of_output(state: Path) -> None:
    """Somebody outside the tree holds the pipe: the outcome does not wait for that."""
    read_end, write_end = os.pipe()
    try:
        async with lastout.open_process(["true"], stdout=write_end, state=state) as process:
            with anyio.fail_after(10):
                assert (await process.wait()).returncode == 0
    finally:
        os.close(read_end)
        os.close(write_end)


async def test_writing_to_nobody_is_broken(state: Path) -> None:
    async with lastout.open_process(["true"], state=state) as process:
        await process.wait()
        assert process.stdin is not None
        with pytest.raises(BrokenResourceError):
            await process.stdin.send(b"x")


async def test_a_writer_that_waits_hears_of_the_end(state: Path) -> None:
    """The root goes while our write is stuck in a full pipe: no copy of stdin holds it open."""
    async with lastout.open_process(
        ["sh", "-c", "read x; exit 0"], stdin_end="ignore", state=state
    ) as process:
        assert process.stdin is not None
        with anyio.fail_after(10):
            with pytest.raises(BrokenResourceError):
                await process.stdin.send(b"\n" + bytes(1 << 20))


async def test_a_large_input_is_written_as_it_is_read(state: Path) -> None:
    async with lastout.open_process(["wc", "-c"], stdin_end="ignore", state=state) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(bytes(5_000_000))
        await process.stdin.aclose()
        assert await process.stdout.receive() == b"5000000\n"
        assert (await process.wait()).returncode == 0


async def test_closing_wakes_who_reads(state: Path) -> None:
    async with lastout.open_process(["cat"], state=state) as process:
        stream = process.stdout
        assert stream is not None
        closed: list[type[BaseException]] = []

        async def read() -> None:
            with pytest.raises(ClosedResourceError):
                await stream.receive()
            closed.append(ClosedResourceError)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
        assert closed
        with pytest.raises(ClosedResourceError):
            await stream.receive()
        await stream.aclose()


async def test_two_readers_at_once_are_refused(state: Path) -> None:
    async with lastout.open_process(["cat"], state=state) as process:
        stream = process.stdout
        assert stream is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.receive)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(BusyResourceError):
                await stream.receive()
            tasks.cancel_scope.cancel()


async def test_a_second_reader_does_not_take_what_the_first_waits_for(state: Path) -> None:
    import time

    async with lastout.open_process(["cat"], state=state) as process:
        stream = process.stdout
        assert stream is not None
        assert process.stdin is not None
        got: list[bytes] = []

        async def first() -> None:
            got.append(await stream.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await anyio.wait_all_tasks_blocked()
            os.write(process.stdin.fileno(), b"for the first")
            time.sleep(0.1)  # the loop is kept from running, until it has come back
            with pytest.raises(BusyResourceError):
                stream._begin("reading from")
        assert got == [b"for the first"]


async def test_the_rest_is_what_is_there_now() -> None:
    """A writer that holds the pipe open is not waited for."""
    read_end, write_end = os.pipe()
    stream = PipeReceiveStream(read_end)
    os.write(write_end, bytes(60000))
    assert sum(len(chunk) for chunk in stream.rest()) == 60000
    assert list(stream.rest()) == []
    os.close(write_end)
    assert list(stream.rest()) == []
    await stream.aclose()


async def test_a_cancelled_read_loses_nothing(state: Path) -> None:
    async with lastout.open_process(["cat"], state=state) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for _ in range(20):
            await process.stdin.send(b"x")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await process.stdout.receive()
        got = b""
        with anyio.fail_after(10):
            while len(got) < 20:
                got += await process.stdout.receive()
    assert got == b"x" * 20


async def test_a_root_that_says_farewell_is_not_cut_off(state: Path, tmp_path: Path) -> None:
    """Leaving discards what it still writes; a full or closed pipe would end its clean-up."""
    script = (
        f"trap 'head -c 1000000 /dev/zero; echo done > {tmp_path}/done; exit 0' TERM\n"
        "echo up; while :; do read x || sleep 0.05; done"
    )
    async with lastout.open_process(
        ["sh", "-c", script], stdin=lastout.DEVNULL, state=state
    ) as process:
        assert process.stdout is not None
        await process.stdout.receive()
    assert process.outcome is not None
    assert process.outcome.returncode == 0
    assert (tmp_path / "done").exists()


async def test_asking_for_nothing_is_an_error(state: Path) -> None:
    async with lastout.open_process(["true"], state=state) as process:
        assert process.stdout is not None
        with pytest.raises(ValueError, match="max_bytes"):
            await process.stdout.receive(0)
