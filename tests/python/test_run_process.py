"""`run_process`: a command to its end, with what it wrote."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio
import pytest

import lastout
from lastout.testing import RudeAgent

pytestmark = pytest.mark.anyio


async def test_input_output_and_status(state: Path) -> None:
    script = "cat; echo err >&2; exit 3"
    done = await lastout.run_process(["sh", "-c", script], input=b"hello", state=state)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hello", b"err\n")
    assert done.outcome.verdict == "exited"
    assert done.args == ["sh", "-c", script]


async def test_the_end_of_the_input_stops_nothing(state: Path) -> None:
    """`sort; sleep; echo`: the command goes on after its input has ended."""
    script = "sort; sleep 0.3; echo done"
    done = await lastout.run_process(
        ["sh", "-c", script], input=b"b\na\n", state=state, graces="instant"
    )
    assert (done.stdout, done.outcome.stop) == (b"a\nb\ndone\n", None)


async def test_a_large_input_and_output_at_once(state: Path) -> None:
    data = bytes(range(256)) * 20000
    done = await lastout.run_process(["cat"], input=data, state=state)
    assert done.stdout == data


async def test_input_that_nobody_reads_is_no_error(state: Path) -> None:
    done = await lastout.run_process(["true"], input=bytes(1 << 20), state=state)
    assert done.returncode == 0


async def test_without_input_stdin_is_empty(state: Path) -> None:
    assert (await lastout.run_process(["cat"], state=state)).stdout == b""


async def test_check_raises_what_subprocess_raises(state: Path) -> None:
    import subprocess

    with pytest.raises(subprocess.CalledProcessError) as caught:
        await lastout.run_process(["sh", "-c", "echo out; exit 3"], check=True, state=state)
    assert isinstance(caught.value, lastout.RunFailed)
    assert (caught.value.returncode, caught.value.stdout) == (3, b"out\n")
    assert "exit status 3" in str(caught.value)


async def test_check_takes_no_stopped_run_for_a_success(state: Path) -> None:
    """A root that answers SIGTERM with status 0 was still stopped by the timeout."""
    script = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    done = await lastout.run_process(["sh", "-c", script], timeout=0.3, state=state)
    assert done.returncode == 0
    with pytest.raises(lastout.RunFailed, match="timeout"):
        done.check_returncode()


async def test_what_the_command_left_behind_is_stopped_before_it_returns(
    state: Path, tmp_path: Path
) -> None:
    agent = RudeAgent(tmp_path, roles=("session", "daemon"), ttl=30)
    done = await lastout.run_process(
        agent.argv, state=state, graces="codex-sdk", stdin=lastout.DEVNULL
    )
    assert (done.returncode, done.stdout) == (0, b"ready\n")
    assert agent.survivors() == []
    assert len(done.outcome.stopped) == 2


async def test_output_of_leftovers_is_collected_until_they_end(state: Path) -> None:
    script = "(trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done) & sleep 0.3"
    done = await lastout.run_process(["sh", "-c", script], state=state)
    assert done.stdout == b"up\nbye\n"


async def test_only_the_end_of_a_long_output_is_kept(state: Path) -> None:
    script = "seq 1 100000; seq 1 10 >&2"
    done = await lastout.run_process(["sh", "-c", script], output_limit=11, state=state)
    assert (done.stdout, done.stdout_omitted) == (b"9999\n100000\n"[-11:], 588895 - 11)
    assert (done.stderr, done.stderr_omitted) == (b"6\n7\n8\n9\n10\n"[-11:], 21 - 11)


async def test_cancelled_it_stops_the_command(state: Path, tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ttl=30)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel_when_ready() -> None:
                while len(agent.present()) < 4:
                    await anyio.sleep(0.01)
                scope.cancel()

            tasks.start_soon(cancel_when_ready)
            await lastout.run_process(
                agent.argv,
                input=None,
                stdin=None,
                state=state,
                graces="codex-sdk",
                leftovers="wait",
            )
    assert agent.survivors() == []


async def test_death_by_a_signal(state: Path) -> None:
    done = await lastout.run_process(["sh", "-c", "kill -9 $$"], state=state)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(lastout.RunFailed, match="SIGKILL"):
        done.check_returncode()


async def test_contradictions_are_refused(state: Path) -> None:
    with pytest.raises(ValueError, match="exclude"):
        await lastout.run_process(["cat"], input=b"x", stdin=0, state=state)
    with pytest.raises(ValueError, match="never be written"):
        await lastout.run_process(["cat"], stdin=lastout.PIPE, state=state)
    with pytest.raises(ValueError, match="output_limit"):
        await lastout.run_process(["cat"], output_limit=-1, state=state)
