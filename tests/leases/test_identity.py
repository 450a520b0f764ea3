"""Identities: the right process, never a stranger, and unknown where nobody can tell."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.programs import program
from lastout import identity, pidfs, proctable
from lastout.identity import Alive, IdentityUnknown, ProcessIdentity

_TICKS = os.sysconf("SC_CLK_TCK")
WAYS = ["by handle", "by inode", "by start time"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kernel's way to recognise a process: 6.17 and later, 6.9 and later, before."""
    if request.param != "by handle":
        monkeypatch.setattr(pidfs, "has_handles", lambda: False)
    if request.param == "by start time":
        monkeypatch.setattr(pidfs, "inode", lambda fd: 0)
    elif not identity.take(os.getpid()).inode:
        pytest.skip("the kernel has no pidfs (6.9)")
    elif request.param == "by handle" and not pidfs.has_handles():
        pytest.skip("the kernel cannot reopen a process by its inode (6.17)")
    return str(request.param)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_lives_then_is_dead_then_is_gone(
    way: str, child: subprocess.Popen[bytes]
) -> None:
    one = identity.take(child.pid)
    assert identity.still_alive(one) is Alive.YES
    identity.signal(one, signal.SIGKILL)
    assert identity.wait_dead(one, 10) is Alive.NO
    assert identity.still_alive(one) is Alive.NO, "a zombie is not alive"
    if way == "by handle":
        os.close(identity.open_pidfd(one))  # but it is still itself: not reaped yet
    child.wait()
    assert identity.still_alive(one) is Alive.NO
    with pytest.raises(ProcessLookupError):
        identity.open_pidfd(one)
    with pytest.raises(ProcessLookupError):
        identity.signal(one, 0)


def test_waiting_ends_with_its_bound(way: str, child: subprocess.Popen[bytes]) -> None:
    assert identity.wait_dead(identity.take(child.pid), 0.01) is Alive.YES


def test_another_process_with_the_same_pid_is_never_signalled(
    way: str, child: subprocess.Popen[bytes]
) -> None:
    """Everything of the stored identity is right but what tells it from whoever came later."""
    one = identity.take(child.pid)
    other = {
        "by handle": replace(one, inode=one.inode + 1_000_000),
        "by inode": replace(one, inode=one.inode + 1),
        "by start time": replace(one, inode=0, start=one.start - 1),
    }[way]
    assert identity.still_alive(other) is Alive.NO
    with pytest.raises(ProcessLookupError):
        identity.signal(other, signal.SIGKILL)
    assert child.poll() is None


def test_a_damaged_inode_that_names_another_process_is_unknown(
    child: subprocess.Popen[bytes],
) -> None:
    if not pidfs.has_handles():
        pytest.skip("the kernel cannot reopen a process by its inode (6.17)")
    one = replace(identity.take(child.pid), inode=identity.take(os.getpid()).inode)
    assert identity.still_alive(one) is Alive.UNKNOWN
    with pytest.raises(IdentityUnknown):
        identity.signal(one, signal.SIGKILL)


@pytest.mark.parametrize(
    ("part", "value", "answer"),
    [
        ("boot_id", "00000000-0000-0000-0000-000000000000", Alive.NO),
        ("boot_id", "", Alive.UNKNOWN),
        ("pidns", 1, Alive.UNKNOWN),
        ("pidns", 0, Alive.UNKNOWN),
    ],
)
def test_boot_and_namespace_come_first(
    way: str, part: str, value: object, answer: Alive, child: subprocess.Popen[bytes]
) -> None:
    one = replace(identity.take(child.pid), **{part: value})
    assert identity.still_alive(one) is answer
    with pytest.raises((IdentityUnknown, ProcessLookupError)):
        identity.signal(one, signal.SIGKILL)
    assert child.poll() is None


def test_without_anything_to_compare_it_is_unknown(child: subprocess.Popen[bytes]) -> None:
    one = replace(identity.take(child.pid), start=0, inode=0)
    assert identity.still_alive(one) is Alive.UNKNOWN


def test_an_unreadable_process_table_is_unknown(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(identity.take(child.pid), inode=0)

    def unreadable(pid: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(identity, "read_stat", unreadable)
    assert identity.still_alive(one) is Alive.UNKNOWN


@pytest.mark.parametrize("pid", [0, 1, -1])
def test_init_and_groups_are_never_signalled(pid: int) -> None:
    with pytest.raises(IdentityUnknown):
        identity.signal(ProcessIdentity(pid, 1, 1, identity.boot_id(), identity.pidns()), 0)


def test_unknown_is_neither_same_nor_different() -> None:
    one = ProcessIdentity(10, 5, 7, "b", 1)
    assert identity.same(one, one) is True
    for part, value in {"pid": 11, "start": 6, "inode": 8, "boot_id": "c", "pidns": 2}.items():
        changed = replace(one, **{part: value})
        expected = part == "start"  # the inode is exact; ticks are not
        assert identity.same(one, changed) is expected, part
    assert identity.same(one, replace(one, inode=0)) is True
    assert identity.same(one, replace(one, inode=0, start=6)) is False
    for part, value in {"boot_id": "", "pidns": 0}.items():
        assert identity.same(one, replace(one, **{part: value})) is None
    assert identity.same(replace(one, inode=0), replace(one, inode=0, start=0)) is None


def test_names_may_hold_anything() -> None:
    line = b"77 (evil) R 1 1 (\n) S 5 6 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4242 0 0\n"
    stat = proctable.parse_stat(line)
    assert (stat.name, stat.state, stat.ppid, stat.pgid) == ("evil) R 1 1 (\n", "S", 5, 6)
    assert (stat.session, stat.threads, stat.start) == (7, 3, 4242)
    for rubbish in (b"", b"77", b"77 (x", b"77 (x) S", b"x (y) S 1 2 3", b")("):
        with pytest.raises(ValueError, match="stat line"):
            proctable.parse_stat(rubbish)


def test_a_process_whose_main_thread_has_ended_is_alive(way: str, tmp_path: Path) -> None:
    """/proc shows Z for it: state Z of a leader is not death."""
    source = tmp_path / "headless.c"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\n"
        "static void *go(void *p) { (void)p; char c; (void)!read(0, &c, 1); _exit(0); }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, go, 0); pthread_exit(0); }\n"
    )
    binary = tmp_path / "headless"
    subprocess.run(["cc", "-o", binary, source, "-lpthread"], check=True)
    with subprocess.Popen([binary], stdin=subprocess.PIPE) as process:
        one = identity.take(process.pid)
        while proctable.read_stat(process.pid).state != "Z":
            assert process.poll() is None
        assert identity.still_alive(one) is Alive.YES
        process.kill()
        assert identity.wait_dead(one, 10) is Alive.NO


def test_a_dead_process_whose_thread_is_held_by_a_tracer_is_dead(tmp_path: Path) -> None:
    """The tracer has not reaped the thread, so the pidfd does not become readable."""
    source = tmp_path / "threads.c"
    source.write_text(
        "#include <pthread.h>\n#include <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
        'static void *go(void *p) { printf("%ld\\n", syscall(SYS_gettid)); fflush(stdout);'
        " pause(); return p; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, go, 0); pause(); }\n"
    )
    binary = tmp_path / "threads"
    subprocess.run(["cc", "-o", binary, source, "-lpthread"], check=True)
    libc = ctypes.CDLL(None, use_errno=True)
    with subprocess.Popen([binary], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        thread = int(process.stdout.readline())
        if libc.ptrace(0x4206, thread, 0, 0) != 0:  # PTRACE_SEIZE
            process.kill()
            pytest.skip("ptrace is not allowed here")
        one = identity.take(process.pid)
        process.kill()
        # The death of the leader is seen by its state; the held thread keeps the pidfd silent.
        while proctable.read_stat(process.pid).state != "Z" or any(
            proctable.read_stat(f"{process.pid}/task/{task}").state != "Z"
            for task in os.listdir(f"/proc/{process.pid}/task")
        ):
            assert identity.still_alive(one) is not Alive.UNKNOWN
        fd = identity.open_pidfd(one)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert not poll.poll(0), "this kernel tells it by the pidfd: then this test tests nothing"
        os.close(fd)
        assert identity.still_alive(one) is Alive.NO
        os.waitpid(thread, 0x40000000)  # __WALL


def test_a_recycled_pid_is_a_stranger(way: str) -> None:
    """The same number, given to an innocent process: it is not the one that was stored."""
    with subprocess.Popen(["sleep", "60"]) as first:
        one = identity.take(first.pid)
        while time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS < one.start + 2:
            pass  # within one clock tick the start time would be the same
        first.kill()
    taker = subprocess.Popen([program("take_pid"), str(one.pid), "sleep", "60"])
    try:
        if not _wait_for_child(taker, one.pid):
            pytest.skip("the number could not be had")
        innocent = identity.take(one.pid)
        assert identity.still_alive(one) is Alive.NO
        with pytest.raises(ProcessLookupError):
            identity.signal(one, signal.SIGKILL)
        assert identity.still_alive(innocent) is Alive.YES
        identity.signal(innocent, signal.SIGKILL)
        assert identity.wait_dead(innocent, 10) is Alive.NO
    finally:
        taker.kill()
        taker.wait()


def _wait_for_child(taker: subprocess.Popen[bytes], pid: int) -> bool:
    """Until it has the number and executes there: its name is no longer the taker's."""
    while taker.poll() is None:
        try:
            if proctable.read_stat(pid).name == "sleep":
                return True
        except ProcessLookupError:
            continue
    return False


def test_it_survives_the_store_and_a_forked_reader(child: subprocess.Popen[bytes]) -> None:
    one = identity.take(child.pid)
    assert identity.from_record(one.to_json()) == one
    assert identity.from_record(one.to_record(), one.boot_id, one.pidns) == one
    assert identity.from_record(None) is None
    code = (
        "import json, sys\nfrom lastout import identity\n"
        "print(identity.still_alive(identity.from_record(json.loads(sys.argv[1]))).value)"
    )
    argv = [sys.executable, "-c", code, json.dumps(one.to_json())]
    assert subprocess.check_output(argv, text=True).strip() == "yes"
    for rubbish in ({}, {"pid": "x"}, {"pid": None}, "text", 7):
        with pytest.raises(ValueError):
            identity.from_record(rubbish)  # type: ignore[arg-type]


_WITHOUT_DESCRIPTORS = """
import json, os, resource
from lastout import identity, pidfs

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
pidfs._libc()


def at_most(count, ask):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        return ask()
    except OSError:
        return "refused"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


pidfs._anonymous()
told = {"boot": at_most(3, identity.boot_id), "handles": at_most(4, pidfs.has_handles)}
start = identity.read_stat


def then_none(pid):
    found = start(pid)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    return found


identity.read_stat = then_none
told["taken"] = at_most(soft, lambda: identity.take(os.getpid()).boot_id)
identity.read_stat = start
me = identity.take(os.getpid())
told["then"] = [identity.boot_id(), pidfs.has_handles(), identity.still_alive(me).value]
print(json.dumps(told))
"""


def test_what_cannot_be_asked_without_a_descriptor_is_asked_again() -> None:
    argv = [sys.executable, "-c", _WITHOUT_DESCRIPTORS]
    told = json.loads(subprocess.check_output(argv, text=True, stdin=subprocess.DEVNULL))
    assert told["boot"] == ""
    assert told["handles"] in ("refused", False)
    assert told["taken"] == "refused", "no identity is taken whose boot nobody knows"
    assert told["then"] == [identity.boot_id(), pidfs.has_handles(), "yes"]
