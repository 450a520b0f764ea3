"""The service process itself: it sleeps, it bears bad clients and full disks, it hands nothing on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastout import identity
from lastout.services import errors, layout, wire
from lastout.services.activation import ids
from lastout.services.store import Services

SLEEPS = 1.5


def switches(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if "ctxt_switches" in line]


@pytest.mark.quiet
def test_it_sleeps_while_its_work_runs(services, serve, work, wait_bound):
    server = serve()
    services.add("job", work.held())
    begun = services.start("job")
    work.wait_up()
    assert services.serving()
    before: list[str] = []
    while before != (before := switches(server.process.pid)):
        select.select([], [], [], 0.3)  # until it has heard the last client hang up
    select.select([], [], [], SLEEPS)  # the subject is that nothing happens in this time
    assert switches(server.process.pid) == before
    work.let_go()
    services.wait("job", begun.activation, wait_bound)


def connected(services) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    with wire._reachable(services.state) as path:
        link.connect(path)
    link.settimeout(30)
    return link


def test_clients_that_hold_every_descriptor_cost_only_themselves(services, serve, work, wait_bound):
    server = serve()
    services.add("job", work.quick())
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    most = len(os.listdir(f"/proc/{pid}/fd")) + 8
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
    with contextlib.ExitStack() as idle:
        for _ in range(3 * most):
            idle.enter_context(connected(services))
        assert services.serving(), "who asks something is heard"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        _, done = services.run("job", timeout=wait_bound)
    assert not done.failed
    assert server.process.poll() is None


def test_without_a_descriptor_for_the_first_client_it_listens_again(
    services, serve, work, wait_bound
):
    server = serve()
    services.add("job", work.quick())
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    held = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    most = next(number for number in range(len(held) + 1) if number not in held)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
    with connected(services) as link:
        link.sendall(b'{"do": "ping"}\n')
        log = select.poll()
        log.register(link, select.POLLIN)
        assert not log.poll(1200), "it cannot be accepted"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert json.loads(link.recv(4096))["ok"]
    _, done = services.run("job", timeout=wait_bound)
    assert not done.failed


def test_a_removed_and_made_again_service_has_one_step_at_a_time(services, work):
    services.add("job", work.quick())
    waits, enters = threading.Event(), threading.Event()
    inside: list[str] = []

    def second() -> None:
        with layout.alone(services.state, "job", 30):
            inside.append("second")
            enters.set()

    opened = layout._open_steps

    def told(state: str, name: str) -> int:
        fd = opened(state, name)
        waits.set()
        return fd

    thread = threading.Thread(target=second)
    with pytest.MonkeyPatch.context() as patch:
        with layout.alone(services.state, "job"):
            patch.setattr(layout, "_open_steps", told)
            thread.start()
            waits.wait(30)  # it has the file of the service that is removed now
            patch.undo()
            shutil.rmtree(layout.service_directory(services.state, "job"))
            services.add("job", work.quick())
            third = os.open(
                os.path.join(layout.service_directory(services.state, "job"), "steps"),
                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
            )
            fcntl.flock(third, fcntl.LOCK_EX)
        # The lock of the removed file is free now, and that of the new one is not.
        assert not enters.wait(0.5)
        os.close(third)
    thread.join(30)
    assert inside == ["second"]


def test_bad_clients_are_told_so_and_nobody_else_notices(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick())
    bad = [b"not json\n", b"[]\n", b"{}\n", b'{"do": 1}\n', b'{"do": "start"}\n', b"\xff\xfe\n"]
    for line in [*bad, b'{"do": "start", "name": ["x"]}\n', b"[" * 4000 + b"\n"]:
        with connected(services) as link:
            link.sendall(line)
            told = json.loads(link.makefile("rb").readline())
            assert told["ok"] is False, line
    with connected(services) as link, contextlib.suppress(ConnectionError):
        link.sendall(b"x" * 20_000)
        assert link.recv(100) == b""
    with connected(services) as half:
        half.sendall(b'{"do": "st')
        assert not services.run("job", timeout=wait_bound)[1].failed
    with contextlib.ExitStack() as many:
        for _ in range(140):
            many.enter_context(connected(services))
    assert not services.run("job", timeout=wait_bound)[1].failed


def test_what_it_ignores_its_work_does_not(services, serve, tmp_path, wait_bound):
    serve()
    before = os.umask(0o027)
    try:
        services.add(
            "job", ["sh", "-c", "grep SigIgn /proc/self/status; umask; ls -l /proc/self/fd"]
        )
    finally:
        os.umask(before)
    services.run("job", timeout=wait_bound)
    text = Path(services.output("job")).read_text()
    assert text.startswith("SigIgn:\t0000000000000000\n0027\n"), text
    assert "socket:" not in text
    assert "serve.lock" not in text
    assert "conftest.py" not in text


def test_a_damaged_definition_is_named_and_holds_nobody_up(services, serve, work, wait_bound):
    services.add("bad", work.quick())
    services.add("job", work.quick())
    (Path(layout.service_directory(services.state, "bad")) / "definition.json").write_text("{")
    serve()
    with pytest.raises(errors.ServiceError, match=r"definition\.json cannot be read"):
        services.start("bad")
    assert not services.run("job", timeout=wait_bound)[1].failed


@pytest.mark.root
def test_a_full_state_directory_loses_nothing(serve_in, tmp_path, wait_bound):
    state = tmp_path / "state"
    state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "none", str(state)], check=False
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        serve_in(tmp_path, "", full_disk)
    finally:
        subprocess.run(["umount", str(state)], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def full_disk(services: Services, serve, work, wait_bound: float, dies: str) -> None:
    serve()
    services.add("job", work.held(), manager="lastout")
    filler = Path(services.state) / "filler"
    fill(filler)
    with pytest.raises((OSError, errors.ServiceError), match="No space left"):
        services.start("job")
    assert ids(services.state, "job") == []
    filler.unlink()
    begun = services.start("job")
    work.wait_up()
    found = services.status("job").found
    assert found is not None
    fds = [os.pidfd_open(one.pid) for one in found.supervisors]
    fill(filler)
    work.let_go()
    for fd in fds:
        assert select.select([fd], [], [], wait_bound)[0]
        os.close(fd)
    status = services.status("job")
    assert status.state != "ended"
    filler.unlink()
    done = services.wait("job", begun.activation, wait_bound)
    assert done.tree_gone or done.verdict == "killed"
    assert ids(services.state, "job") == [begun.activation]
    assert work.times == 1


def test_in_the_background_it_bears_what_nohup_bears(services, work, wait_bound):
    """`nohup lastout service serve &`: neither the terminal's end nor its keys are meant for it."""
    argv = [sys.executable, "-m", "lastout", "service", "serve", "--state", services.state]
    script = f"trap '' HUP INT; {' '.join(argv)} >/dev/null 2>{work.directory}/said & echo $!"
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    pid = int(out)
    wait_for(services.serving)
    one = identity.take(pid)
    for number in (signal.SIGHUP, signal.SIGINT):
        identity.signal(one, number)
    assert services.serving()
    identity.signal(one, signal.SIGTERM)
    assert identity.wait_dead(one, wait_bound) is identity.Alive.NO
    assert services.serving() is None


def test_detached_it_answers_when_the_command_is_over(services, wait_bound):
    argv = [sys.executable, "-m", "lastout", "service", "serve", "--state", services.state]
    out = subprocess.run([*argv, "--detach"], capture_output=True, text=True, check=True).stdout
    pid = int(out)
    assert os.getsid(pid) not in (os.getsid(0), pid)  # it leads none, so it can get no terminal
    again = subprocess.run([*argv, "--detach"], capture_output=True, text=True, check=False)
    assert (again.returncode, "already" in again.stderr) == (1, True)
    one = identity.take(pid)
    quit_ = subprocess.run([*argv, "--quit"], capture_output=True, text=True, check=True)
    assert int(quit_.stdout) == pid
    assert identity.wait_dead(one, wait_bound) is identity.Alive.NO


def wait_for(there: Callable[[], object]) -> None:
    """Until a service process that is no child of ours answers."""
    due = time.monotonic() + 30
    while not there():
        assert time.monotonic() < due
        select.select([], [], [], 0.05)
