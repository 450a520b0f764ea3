"""Environment, directory, argv[0], redirection, descriptors, users, limits: as subprocess does."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lastout

pytestmark = pytest.mark.anyio

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


async def say(argv: list[Any], **options: Any) -> bytes:
    """What our run of this writes to stdout."""
    done = await lastout.run_process(argv, check=True, **options)
    assert done.stdout is not None
    return done.stdout


async def same(argv: list[Any], state: Path, **options: Any) -> bytes:
    """What both write: ours, after it was compared with subprocess's."""
    theirs = subprocess.run(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
    ours = await lastout.run_process(argv, state=state, **options)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stdout is not None
    return ours.stdout


async def test_the_environment(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    assert b"INHERITED=yes" in await same(["env"], state)
    assert await same(["/usr/bin/env"], state, env={"ONLY": "this", "EMPTY": ""}) == (
        b"ONLY=this\nEMPTY=\n"
    )
    assert await same(["/usr/bin/env"], state, env={}) == b""


async def test_the_program_is_found_on_the_given_path(state: Path, tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert await same(["only-here"], state, env={"PATH": str(tmp_path)}) == b"found\n"
    with pytest.raises(FileNotFoundError):
        await say(["only-here"], state=state)


async def test_the_directory(state: Path, tmp_path: Path) -> None:
    assert await same(["pwd"], state, cwd=tmp_path) == os.fsencode(tmp_path) + b"\n"
    (tmp_path / "here").write_text("#!/bin/sh\necho relative\n")
    (tmp_path / "here").chmod(0o755)
    assert await same(["./here"], state, cwd=str(tmp_path)) == b"relative\n"


async def test_argv0_and_executable(state: Path) -> None:
    assert await same(["myself", "-c", "echo $0"], state, executable="/bin/sh") == b"myself\n"
    argv = ["/bin/sh", "-c", "echo $0"]
    assert await say(argv, argv0="other", state=state) == b"other\n"


async def test_arguments_are_bytes_after_all(state: Path) -> None:
    argv = ["printf", "%s|%s|%s", "", "a\nb", os.fsdecode(b"caf\xe9")]
    assert await same(argv, state) == b"|a\nb|caf\xe9"


async def test_stdin_can_be_inherited_null_a_file_or_a_descriptor(
    state: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b"from a file\n")
    with open(tmp_path / "in", "rb") as file:
        assert await say(["cat"], stdin=file, state=state) == b"from a file\n"
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        assert await say(["cat"], stdin=file.fileno(), state=state) == b"from a file\n"
    assert await say(["cat"], stdin=lastout.DEVNULL, state=state) == b""


async def test_output_can_go_to_null_a_file_or_together(state: Path, tmp_path: Path) -> None:
    script = ["sh", "-c", "echo out; echo err >&2"]
    assert await say(script, stderr=lastout.STDOUT, state=state) == b"out\nerr\n"
    with open(tmp_path / "out", "wb") as file:
        done = await lastout.run_process(script, stdout=file, stderr=lastout.DEVNULL, state=state)
    assert (done.stdout, done.stderr) == (None, None)
    assert (tmp_path / "out").read_bytes() == b"out\n"


async def test_stderr_is_inherited_by_default(
    state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with lastout.open_process(["sh", "-c", "echo err >&2"], state=state) as process:
        await process.wait()
    assert process.stderr is None
    assert capfd.readouterr().err == "err\n"


async def test_only_the_asked_for_descriptors_are_passed(state: Path) -> None:
    kept, other = os.pipe()
    os.set_inheritable(other, True)
    try:
        listing = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            "import os; print(os.listdir('/proc/self/fd'))",
        ]
        found = eval(await say(listing, pass_fds=[kept], state=state))
        # One more is the directory that is being listed.
        assert {int(fd) for fd in found} - {0, 1, 2, kept} == {
            min({int(fd) for fd in found} - {0, 1, 2, kept})
        }
        assert str(kept) in found
        assert str(other) not in found
    finally:
        os.close(kept)
        os.close(other)


async def test_a_passed_descriptor_works(state: Path) -> None:
    read_end, write_end = os.pipe()
    try:
        program = f"import os; os.write({write_end}, b'hello\\n')"
        await say([sys.executable, "-I", "-S", "-c", program], pass_fds=[write_end], state=state)
        assert os.read(read_end, 100) == b"hello\n"
    finally:
        os.close(read_end)
        os.close(write_end)


async def test_umask(state: Path) -> None:
    assert await same(["sh", "-c", "umask"], state, umask=0o027) == b"0027\n"
    assert await say(["sh", "-c", "umask"], state=state) == (
        subprocess.check_output(["sh", "-c", "umask"])
    )


@needs_root
async def test_user_and_groups(state: Path) -> None:
    options = {"user": "nobody", "group": "nogroup", "extra_groups": ["mail", 100]}
    assert b"uid=65534(nobody) gid=65534(nogroup)" in await same(["id"], state, **options)
    assert await same(["id", "-u"], state, user=65534) == b"65534\n"
    assert await same(["id", "-G"], state, extra_groups=[]) == b"0\n"


@needs_root
async def test_a_user_may_not_be_able_to_execute(state: Path, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    os.chmod(tmp_path, 0o755)
    with pytest.raises(PermissionError) as caught:
        await say([str(program)], user="nobody", state=state)
    assert caught.value.filename == str(program)


async def test_limits(state: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = min(64, soft)
    limits = {"NOFILE": (half, hard), "CORE": (0, 0)}
    output = await say(["sh", "-c", "ulimit -n; ulimit -c"], rlimits=limits, state=state)
    assert output == f"{half}\n0\n".encode()


async def test_a_session_of_its_own(state: Path) -> None:
    program = "import os; print(os.getsid(0) == os.getpid())"
    argv = [sys.executable, "-I", "-S", "-c", program]
    assert await say(argv, start_new_session=True, state=state) == b"True\n"


async def test_signals_are_at_their_default_in_the_root(state: Path) -> None:
    """Python ignores SIGPIPE and SIGXFSZ; what it starts must not."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        status = (await say(["cat", "/proc/self/status"], state=state)).decode()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert int(fields["SigBlk"], 16) == 0
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        assert not int(fields["SigIgn"], 16) >> (number - 1) & 1


BROKEN = [
    (["/nonexistent/program"], FileNotFoundError),
    (["no-such-program-anywhere"], FileNotFoundError),
    (["/etc/passwd"], PermissionError),
    (["/tmp"], PermissionError),
    (["/etc/passwd/below"], NotADirectoryError),
]


@pytest.mark.parametrize(("argv", "error"), BROKEN)
async def test_what_cannot_be_executed_raises_as_in_subprocess(
    argv: list[str], error: type[OSError], state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error) as theirs:
        subprocess.Popen(argv)
    with pytest.raises(error) as ours:
        await say(argv, stderr=None, state=state)
    assert type(ours.value) is type(theirs.value)
    assert (ours.value.errno, ours.value.filename) == (theirs.value.errno, theirs.value.filename)
    assert capfd.readouterr().err == "", "the exception says it; stderr is the command's"


@pytest.mark.parametrize("directory", ["/nonexistent", "/etc/passwd"])
async def test_a_directory_that_cannot_be_entered(directory: str, state: Path) -> None:
    with pytest.raises(OSError) as theirs:
        subprocess.Popen(["true"], cwd=directory)
    with pytest.raises(type(theirs.value)) as ours:
        await say(["true"], cwd=directory, state=state)
    assert (ours.value.errno, ours.value.filename) == (theirs.value.errno, directory)


async def test_a_user_that_does_not_exist(state: Path) -> None:
    with pytest.raises(ValueError, match="no user 'nobody-at-all'"):
        await say(["true"], user="nobody-at-all", state=state)
    with pytest.raises(ValueError, match="no group"):
        await say(["true"], group="nobody-at-all", state=state)


async def test_a_refusal_is_typed(state: Path, tmp_path: Path) -> None:
    lock = tmp_path / "1"
    async with lastout.open_process(["cat"], lock=lock, epoch=1, state=state):
        with pytest.raises(lastout.Refused) as caught:
            await say(["true"], lock=lock, epoch=1, state=state)
        assert caught.value.reason == "lock"
        assert str(lock) in str(caught.value)
    (tmp_path / "2").touch()
    with pytest.raises(lastout.Refused) as caught:
        await say(["true"], lock=lock, epoch=1, state=state)
    assert caught.value.reason == "epoch"
    with pytest.raises(lastout.Refused) as caught:
        await say(["true"], owner=_stranger(), state=state)
    assert caught.value.reason == "owner"


def _stranger() -> lastout.ProcessIdentity:
    from lastout import identity

    mine = identity.take(os.getpid())
    return lastout.ProcessIdentity(mine.pid, mine.start + 1)


async def test_a_usage_error_of_the_program_is_not_swallowed(state: Path, tmp_path: Path) -> None:
    """What no check here foresaw: its status, and where its words are."""
    (tmp_path / "directory").mkdir()
    with pytest.raises(lastout.ExecutionFailed, match="125"):
        await say(["true"], record=tmp_path / "directory", state=state)
