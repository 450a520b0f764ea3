"""`open_terminal` and `TerminalPopen`: a run on a terminal of its own."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import ClosedResourceError

import lastout
from lastout import identity
from lastout.graces import Graces
from lastout.identity import Alive
from lastout.proctable import read_stat

QUICK = Graces(stdin=0.1, term=0.4, reap=5.0)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"graces": QUICK, "state": tmp_path / "state"}


async def rest(terminal: lastout.Terminal) -> bytes:
    """All output until its end."""
    return b"".join([chunk async for chunk in terminal.stdout])


async def until(terminal: lastout.Terminal, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += await terminal.receive()
    return seen


@pytest.mark.anyio
async def test_a_session_and_a_controlling_terminal_of_its_own(options: dict[str, Any]) -> None:
    ask = "stty size; tty; ps -o pid=,pgid=,sid=,tpgid= -p $$; stty size < /dev/tty; exit 3"
    async with lastout.open_terminal(["sh", "-c", ask], size=(33, 99), **options) as terminal:
        size, name, ids, again = (await rest(terminal)).decode().split("\r\n")[:4]
        assert (await terminal.wait()).returncode == 3
    assert size == again == "33 99"
    assert name.startswith("/dev/pts/")
    assert set(ids.split()) == {str(terminal.root.pid)}
    assert terminal.started.terminal == 1


@pytest.mark.anyio
async def test_it_is_typed_at_and_resized(options: dict[str, Any]) -> None:
    script = "echo up; read a; echo got $a; read b; stty size; read c || echo over"
    async with lastout.open_terminal(["sh", "-c", script], **options) as terminal:
        assert terminal.size == (24, 80)
        await until(terminal, b"up\r\n")
        await terminal.send(b"one\n")
        assert await until(terminal, b"got one\r\n") == b"one\r\ngot one\r\n"
        terminal.resize(50, 132)
        assert terminal.size == (50, 132)
        await terminal.send(b"\n")
        await until(terminal, b"50 132\r\n")
        await terminal.send(b"\x04")
        assert (await rest(terminal)).endswith(b"over\r\n")
        assert (await terminal.wait()).returncode == 0


@pytest.mark.anyio
async def test_a_change_of_size_is_heard(options: dict[str, Any]) -> None:
    script = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.01; done"
    async with lastout.open_terminal(["sh", "-c", script], **options) as terminal:
        await until(terminal, b"up\r\n")
        terminal.resize(50, 132)
        assert await rest(terminal) == b"50 132\r\n"


@pytest.mark.anyio
async def test_bytes_stay_as_they_are(options: dict[str, Any]) -> None:
    """No decoding, and with raw=True no line editing either: every byte, both ways."""
    every = bytes(range(256)) * 4
    program = (
        f"import os\nn = 0\nwhile n < {len(every)}:\n  d = os.read(0, 999)\n  n += os.write(1, d)"
    )
    argv = [sys.executable, "-I", "-S", "-c", program]
    async with lastout.open_terminal(argv, raw=True, **options) as terminal:
        await terminal.send(every)
        assert await rest(terminal) == every


@pytest.mark.anyio
async def test_all_output_comes_before_or_with_the_exit_report(options: dict[str, Any]) -> None:
    """300 kB and an exit at once; EIO is the end, no error."""
    program = "import os\nd = b'x' * 300000\nwhile d: d = d[os.write(1, d):]\nos._exit(7)"
    argv = [sys.executable, "-I", "-S", "-c", program]
    for _ in range(30):
        async with lastout.open_terminal(argv, **options) as terminal:
            assert len(await rest(terminal)) == 300000
            assert (await terminal.wait()).returncode == 7
    # What the kernel takes without a reader is there after the report.
    argv[-1] = argv[-1].replace("300000", "2000")
    for _ in range(30):
        async with lastout.open_terminal(argv, **options) as terminal:
            assert (await terminal.wait()).returncode == 7
            assert len(await rest(terminal)) == 2000


@pytest.mark.anyio
async def test_somebody_else_who_has_the_terminal_is_not_waited_for(
    options: dict[str, Any],
) -> None:
    async with lastout.open_terminal(["sh", "-c", "tty; read line"], **options) as terminal:
        name = (await until(terminal, b"\r\n")).strip()
        held = os.open(name, os.O_RDWR | os.O_NOCTTY)
        try:
            async with anyio.create_task_group() as tasks:

                async def read_on() -> None:
                    assert await rest(terminal) == b"\r\n"

                tasks.start_soon(read_on)
                await terminal.send(b"\n")
                assert (await terminal.wait()).returncode == 0
        finally:
            os.close(held)


RAW_AND_DEAF = """
import os, signal, subprocess, tty
for number in (signal.SIGHUP, signal.SIGTTOU):
    signal.signal(number, signal.SIG_IGN)
tty.setraw(0)
subprocess.Popen(["sleep", "60"], process_group=0)
subprocess.Popen(["nohup", "sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=-3)
os.write(1, b"up")
signal.pause()
"""


@pytest.mark.anyio
async def test_a_hang_up_is_no_stop_and_the_ladder_follows(options: dict[str, Any]) -> None:
    """Who ignores SIGHUP is not ended by it: SIGTERM, then SIGKILL, and nobody is left."""
    argv = [sys.executable, "-I", "-S", "-c", RAW_AND_DEAF]
    for _ in range(3):
        async with lastout.open_terminal(argv, **options) as terminal:
            await until(terminal, b"up")
            members = await terminal.members()
            assert len(members) == 3
            terminal.hang_up(by="the test")
            with pytest.raises(ClosedResourceError):
                await terminal.receive()
            outcome = await terminal.wait()
            assert outcome.tree_gone
            assert outcome.stop == lastout.Stop("requested", "user", "the test")
        assert all(not alive(member.pid, member.start) for member in members)


def alive(pid: int, start: int) -> bool:
    try:
        return read_stat(pid).start == start
    except ProcessLookupError:
        return False


@pytest.mark.anyio
async def test_the_hang_up_itself_is_heard(options: dict[str, Any], tmp_path: Path) -> None:
    script = (
        f"trap 'echo hup > {tmp_path}/heard; exit 4' HUP; echo up; while :; do sleep 0.01; done"
    )
    async with lastout.open_terminal(["sh", "-c", script], **options) as terminal:
        await until(terminal, b"up")
        os.close(os.dup(terminal.stdout.fileno()))
        terminal.stdin.close()
        terminal.stdout.close()
        assert (await terminal.wait_root()) == 4
    assert (tmp_path / "heard").read_text() == "hup\n"


@pytest.mark.anyio
async def test_descriptors_are_passed_on(options: dict[str, Any]) -> None:
    read_end, write_end = os.pipe()
    try:
        argv = ["sh", "-c", f"echo by the way > /proc/self/fd/{write_end}"]
        async with lastout.open_terminal(argv, pass_fds=[write_end], **options) as terminal:
            await terminal.wait()
        assert os.read(read_end, 100) == b"by the way\n"
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.anyio
async def test_leaving_the_block_lets_a_root_that_cleans_up_write(options: dict[str, Any]) -> None:
    script = "trap 'head -c 200000 /dev/zero; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    async with lastout.open_terminal(["sh", "-c", script], **options) as terminal:
        await until(terminal, b"up")
    assert terminal.outcome is not None
    assert terminal.outcome.returncode == 5


@pytest.mark.anyio
async def test_no_descriptor_is_left(options: dict[str, Any]) -> None:
    async with lastout.open_terminal(["true"], **options) as terminal:
        await terminal.wait()
    before = len(os.listdir("/proc/self/fd"))
    for argv in (["true"], ["/no/such/program"], ["sh", "-c", "sleep 60"]):
        try:
            async with lastout.open_terminal(argv, **options):
                pass
        except FileNotFoundError:
            pass
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.anyio
async def test_a_forked_child_does_not_keep_the_terminal(options: dict[str, Any]) -> None:
    async with lastout.open_terminal(
        ["sh", "-c", "echo up; read x; sleep 60"], **options
    ) as terminal:
        await until(terminal, b"up")
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(ready, 1)
            os._exit(terminal.stdout.fileno() != -1)
        terminal.hang_up()
        assert (await terminal.wait()).tree_gone
        os.write(told, b"x")
        assert os.waitpid(pid, 0)[1] == 0
        os.close(ready)
        os.close(told)


@pytest.mark.anyio
async def test_redirections_are_refused_before_anything_starts() -> None:
    for wrong in ("stdin", "stdout", "stderr", "start_new_session", "ctty"):
        with pytest.raises(TypeError, match=wrong):
            async with lastout.open_terminal(["true"], **{wrong: True}):
                pass
        with pytest.raises(TypeError, match=wrong):
            lastout.TerminalPopen(["true"], **{wrong: True})


# --- for threads -----------------------------------------------------------------------------------


def read_all(terminal: lastout.TerminalPopen) -> bytes:
    chunks = []
    while chunk := terminal.read(timeout=20):
        chunks.append(chunk)
    return b"".join(chunks)


def test_threads_type_read_and_resize(options: dict[str, Any]) -> None:
    script = "stty size; read line; stty size; echo got $line; exit 3"
    with lastout.TerminalPopen(["sh", "-c", script], size=(33, 99), **options) as terminal:
        assert terminal.read(timeout=20).startswith(b"33 99\r\n")
        with pytest.raises(TimeoutError):
            terminal.read(timeout=0.02)
        terminal.resize(40, 120)
        assert terminal.size == (40, 120)
        terminal.write(b"one\n", timeout=20)
        assert read_all(terminal) == b"one\r\n40 120\r\ngot one\r\n"
        assert terminal.wait(20) == 3


def test_threads_have_all_output(options: dict[str, Any]) -> None:
    program = "import os\nd = b'x' * 300000\nwhile d: d = d[os.write(1, d):]\nos._exit(7)"
    argv = [sys.executable, "-I", "-S", "-c", program]
    for _ in range(30):
        with lastout.TerminalPopen(argv, **options) as terminal:
            assert len(read_all(terminal)) == 300000
            assert terminal.wait(20) == 7


def test_threads_leave_nobody_behind(options: dict[str, Any]) -> None:
    argv = ["sh", "-c", "trap '' HUP; setsid sleep 60 & echo up; sleep 60"]
    with lastout.TerminalPopen(argv, **options) as terminal:
        terminal.read(timeout=20)
    assert terminal.outcome is not None
    assert terminal.outcome.tree_gone
    assert terminal.returncode == -signal.SIGTERM
    with lastout.TerminalPopen(argv, **options) as terminal:
        terminal.read(timeout=20)
        terminal.hang_up()
        with pytest.raises(ValueError, match="hung up"):
            terminal.read()
    assert identity.still_alive(terminal.root) is Alive.NO


def test_a_daemon_does_not_get_the_terminal_as_its_own(options: dict[str, Any]) -> None:
    """A session leader without a terminal would take the first one that it opens carelessly."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            with lastout.TerminalPopen(["cat"], **options) as terminal:
                mine = read_stat(os.getpid())
                theirs = read_stat(terminal.pid)
                status = 0 if tty_of(mine.pid) == tty_of(theirs.pid) == 0 else 2
        finally:
            os.write(told, b"x")
            os._exit(status)
    select.select([ready], [], [], 30)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(ready)
    os.close(told)


def tty_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4])
