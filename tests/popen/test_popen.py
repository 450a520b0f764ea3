"""What `lastout.Popen` does beyond subprocess, and where it must do exactly the same."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastout
from lastout.doctor import tiers
from lastout.evidence.events import Signalled
from lastout.evidence.settled import settled
from lastout.identity import Alive, still_alive
from lastout.testing import RudeAgent

Start = Callable[..., lastout.Popen[Any]]

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def started(process: lastout.Popen[Any]) -> lastout.Popen[Any]:
    """Wait until the program has said that it is there."""
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.mark.parametrize("ignores", [False, True], ids=["obeys", "ignores"])
def test_terminate_leaves_nobody(tmp_path: Path, popen: Start, ignores: bool) -> None:
    agent = RudeAgent(tmp_path, ignores_term=ignores)
    with started(
        popen(agent.argv, stdin=-1, stdout=-1, graces=lastout.Graces(term=0.3))
    ) as process:
        process.terminate()
        assert process.wait() == (-signal.SIGKILL if ignores else 143)
    assert len(agent.present()) == 4
    assert agent.survivors() == []
    assert process.outcome is not None
    assert process.outcome.verdict == "exited"
    assert process.outcome.tree_gone


def test_kill_stops_now(tmp_path: Path, popen: Start) -> None:
    agent = RudeAgent(tmp_path, ignores_term=True)
    with started(popen(agent.argv, stdin=-1, stdout=-1, graces=lastout.Graces(term=30))) as process:
        process.kill()
        assert process.wait(timeout=20) == -signal.SIGKILL
    assert agent.survivors() == []


def test_a_reason_that_no_supervisor_knows_is_refused(popen: Start) -> None:
    unknown: Any = "quit"
    with popen(["cat"], stdin=subprocess.PIPE) as process:
        with pytest.raises(ValueError, match="not 'quit'"):
            process.stop(reason=unknown)
        assert process.poll() is None


def test_the_end_of_a_command_ends_what_it_left(tmp_path: Path, popen: Start) -> None:
    agent = RudeAgent(tmp_path)
    process = started(popen(agent.argv, stdin=-1, stdout=-1, graces=lastout.Graces(term=0.3)))
    with process:
        process.communicate(timeout=20)  # ends its stdin, and so the agent; the tools do not care
        assert process.returncode == 0
    assert agent.survivors() == []


def test_input_that_ends_stops_nothing(popen: Start) -> None:
    """The end of stdin is just the end of the input: `sort` still has to sort."""
    slow = "import sys, time; d = sys.stdin.read(); time.sleep(1.5); print(d.upper())"
    with popen([sys.executable, "-c", slow], stdin=-1, stdout=-1, text=True) as process:
        assert process.communicate("done")[0] == "DONE\n"
    assert process.returncode == 0


def test_the_returncode_is_the_roots_own(popen: Start) -> None:
    """A program that cleans up on SIGTERM and ends with 3: subprocess says 3, not -15."""
    program = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done"
    for start in (subprocess.Popen, popen):
        with started(start(["sh", "-c", program], stdout=-1)) as process:
            process.terminate()
            assert process.wait() == 3


def test_the_returncode_when_a_stray_wait_took_the_front_away(popen: Start) -> None:
    with popen(["sh", "-c", "read x; exit 7"], stdin=-1) as process:
        process.stdin.write(b"go\n")
        process.stdin.close()
        os.waitpid(process.pid, 0)
        assert process.wait() == 7


def test_the_front_killed_by_somebody(tmp_path: Path, popen: Start) -> None:
    agent = RudeAgent(tmp_path, ignores_term=True)
    graces = lastout.Graces(stdin=0, term=0.3, reap=1)
    process = started(popen(agent.argv, stdin=-1, stdout=-1, graces=graces))
    with process:
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(timeout=20) == -signal.SIGKILL
        assert process.outcome is not None
        assert process.outcome.stop is not None
        assert process.outcome.stop.trigger == "peer-lost"
    assert agent.survivors() == []


@contextlib.contextmanager
def kept_stopped(process: lastout.Popen[Any]) -> Iterator[None]:
    """Front and keeper are stopped again as soon as somebody continues them."""
    enough = threading.Event()

    def stop() -> None:
        while not enough.wait(0.001):
            for pid in (process.pid, process.keeper.pid):
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    return

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def test_both_supervisors_paused_the_forced_step(popen: Start) -> None:
    """Nobody answers: when the bound is over the tree is ended from outside."""
    graces = lastout.Graces(stdin=0, term=0.2, reap=0.2)
    process = started(popen([sys.executable, "-c", DEAF], stdout=-1, graces=graces))
    with process, kept_stopped(process):
        process.terminate()
        process.wait(timeout=20)
    assert process.outcome is not None
    assert still_alive(process.root) is Alive.NO
    assert still_alive(process.keeper) is Alive.NO


def test_a_stop_by_another_thread_bounds_a_wait_that_had_no_bound(popen: Start) -> None:
    graces = lastout.Graces(stdin=0, term=0.2, reap=0.2)
    process = started(popen([sys.executable, "-c", DEAF], stdout=-1, graces=graces))
    found: list[int | None] = []
    with process, kept_stopped(process):
        waiter = threading.Thread(target=lambda: found.append(process.wait()))
        waiter.start()
        while process._waiters == 0:  # it sleeps, or is about to
            time.sleep(0.01)
        time.sleep(0.1)
        process.terminate()
        waiter.join(timeout=20)
        assert not waiter.is_alive()
    assert found == [process.returncode]


def test_an_interrupt_is_delivered_when_send_signal_returns(popen: Start) -> None:
    blocks = "signal.pthread_sigmask(signal.SIG_BLOCK, [2])"
    program = f"import signal; {blocks}; print('up', flush=True); input(); signal.sigwait([2])"
    with started(popen([sys.executable, "-c", program], stdin=-1, stdout=-1)) as process:
        process.send_signal(signal.SIGINT)
        status = Path(f"/proc/{process.root.pid}/status").read_text()
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        assert pending & 1 << signal.SIGINT - 1
        process.communicate(b"\n", timeout=20)
        assert process.returncode == 0
    assert process.outcome is not None
    assert process.outcome.stop is None
    assert process.record is not None
    passed_on = [e for e in settled(process.record).events if isinstance(e, Signalled)]
    assert [(event.signal, event.forwarded) for event in passed_on] == [("INT", True)]


@pytest.mark.still
def test_signals_without_a_name_and_stop_and_continue(popen: Start) -> None:
    with started(popen([sys.executable, "-c", DEAF], stdout=-1)) as process:
        process.send_signal(0)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGRTMIN + 3)
        assert process.wait(timeout=20) == -(signal.SIGRTMIN + 3)
        process.send_signal(signal.SIGINT)  # it is over: nothing, as in subprocess


def test_waiting_in_many_threads(popen: Start) -> None:
    found: list[int | None] = []
    with started(popen(["sh", "-c", "echo up; read x; exit 5"], stdin=-1, stdout=-1)) as process:
        threads = [threading.Thread(target=lambda: found.append(process.wait())) for _ in range(8)]
        for thread in threads:
            thread.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        assert process.poll() is None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        for thread in threads:
            thread.join()
    assert found == [5] * 8


def test_started_in_a_thread_that_ends(popen: Start) -> None:
    """No parent-death signal of the starting thread: its end is no reason to stop anything."""
    found: list[lastout.Popen[Any]] = []
    thread = threading.Thread(
        target=lambda: found.append(popen(["sh", "-c", "read x; exit 4"], stdin=-1))
    )
    thread.start()
    thread.join()
    with found[0] as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.wait() == 4


def test_a_forgotten_handle_warns_and_runs_on(popen: Start) -> None:
    process = popen(["sh", "-c", "read x"], stdin=-1)
    stdin, keeper, front = process.stdin, process.keeper, os.pidfd_open(process.pid)
    process.stdin = None
    with pytest.warns(ResourceWarning, match="is still running"):
        del process
        gc.collect()
    assert still_alive(keeper) is Alive.YES
    stdin.close()
    assert select.select([front], [], [], 20)[0]
    os.close(front)
    # As in subprocess, it is reaped when another child is started.
    with popen(["true"]):
        pass


def test_nothing_started_leaves_no_descriptor(popen: Start, tmp_path: Path) -> None:
    gc.collect()  # what other tests have dropped
    before = set(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for how in (
            {"args": ["/nonexistent"]},
            {"args": ["true"], "cwd": "/nonexistent"},
            {"args": [str(tmp_path)]},
        ):
            with pytest.raises(OSError) as theirs:
                subprocess.Popen(**how, stdin=-1, stdout=-1)
            with pytest.raises(OSError) as caught:
                popen(**how, stdin=-1, stdout=-1)
            assert type(caught.value) is type(theirs.value)
            assert caught.value.filename == theirs.value.filename
            assert caught.value.errno == theirs.value.errno
        gc.collect()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_finished_run_holds_no_descriptor(popen: Start) -> None:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    with popen(["true"], stdin=-1, stdout=-1):
        pass
    assert set(os.listdir("/proc/self/fd")) == before


def test_closed_stdio_does_not_get_the_control_socket(tmp_path: Path) -> None:
    """In a program without stdio the lowest numbers are free."""
    program = f"""
import os, sys
for fd in (0, 1, 2):
    os.close(fd)
import lastout
file = open({str(tmp_path / "said")!r}, "wb", buffering=0)
p = lastout.Popen(["sh", "-c", "echo said; echo too >&2; exit 6"], stdout=file, stderr=file,
                  state={str(tmp_path)!r})
os._exit(p.wait())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", program], env=env).returncode == 6
    assert (tmp_path / "said").read_text() == "said\ntoo\n"


def test_a_forked_child_cannot_touch_the_run(popen: Start) -> None:
    with started(popen(["sh", "-c", "echo up; cat"], stdin=-1, stdout=-1)) as process:
        process.stdin.write(b"kept ")  # in the buffer, and it must be written once
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                process.stdin.write(b"twice ")
                process.stdin.flush()
                process.kill()
            except lastout.HandleInert:
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert process.poll() is None
        assert process.communicate(b"mine")[0] == b"kept mine"
    assert process.returncode == 0


def test_a_pipe_end_in_a_forked_child_keeps_nobody_waiting(popen: Start) -> None:
    """subprocess hangs here as long as the other child lives: it holds the write end of stdin."""
    read_end, write_end = os.pipe()
    with popen(["cat"], stdin=-1, stdout=-1) as process:
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        assert process.communicate(b"all", timeout=20)[0] == b"all"
    os.close(write_end)
    os.close(read_end)
    os.waitpid(pid, 0)


def test_descriptors_reach_the_root_and_the_control_socket_does_not(popen: Start) -> None:
    one, other = socket.socketpair()
    listing = ["sh", "-c", "ls /proc/self/fd"]
    with one, other:
        for options in ({}, {"close_fds": False}, {"pass_fds": (one.fileno(),)}):
            theirs = subprocess.run(listing, stdout=-1, **options).stdout
            with popen(listing, stdout=-1, **options) as process:
                assert process.communicate()[0] == theirs


def test_the_group_that_a_caller_kills(popen: Start) -> None:
    """os.killpg(os.getpgid(p.pid)) is a common way to stop a tree: it starts the ladder."""
    process = started(popen(["sh", "-c", "echo up; sleep 60"], stdout=-1, start_new_session=True))
    with process:
        os.killpg(os.getpgid(process.pid), signal.SIGTERM)
        assert process.wait(timeout=20) == -signal.SIGTERM
        assert process.outcome is not None
        assert process.outcome.tree_gone


@pytest.mark.parametrize("tier", ["cgroup", "pidns"])
def test_a_stronger_tier(tmp_path: Path, popen: Start, tier: str) -> None:
    trial = tiers.attempt(next(one for one in tiers.TIERS if one.name == tier))
    if not trial.available:
        pytest.skip(f"needs {tier}: {trial.why}")
    agent = RudeAgent(tmp_path, ignores_term=True)
    with started(popen(agent.argv, stdin=-1, stdout=-1, contain=tier)) as process:
        assert process.started.contain == tier
        process.kill()
        assert process.wait(timeout=20) == -signal.SIGKILL
    assert process.outcome is not None
    assert process.outcome.tree_gone


def test_the_limit_of_descriptors(state: Path) -> None:
    """The error comes before anything starts, and says what to do."""
    program = f"""
import os, resource, lastout, lastout.popen
from lastout.popen import DESCRIPTORS
lastout.Popen(["true"], state={str(state)!r}).wait()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
runs = []
try:
    while True:
        before = len(os.listdir("/proc/self/fd"))
        runs.append(lastout.Popen(["sleep", "60"], stdin=-1, stdout=-1, state={str(state)!r}))
        assert len(os.listdir("/proc/self/fd")) - before == DESCRIPTORS + 2
except lastout.LimitReached as error:
    assert isinstance(error, OSError) and error.errno == 24, error
    print(error)
    children = open(f"/proc/self/task/{{os.getpid()}}/children").read().split()
    assert len(children) == len(runs), (children, runs)
for run in runs:
    run.kill()
for run in runs:
    assert run.wait() == -9 and run.outcome.tree_gone
    run.stdin.close(), run.stdout.close()
print(len(runs))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "RLIMIT_NOFILE is 64" in done.stdout
    assert int(done.stdout.split()[-1]) >= 8
