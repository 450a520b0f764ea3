"""The service process is killed at every step: the work runs once, and its end is told once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lastout import identity
from lastout.identity import Alive
from lastout.services import errors, layout
from lastout.services.activation import ids, load
from lastout.services.completion import load as completion_of

# The step at which it kills itself; `+` is the step after that one.
STEPS = {
    "before it has accepted anything": "fcntl.flock@",
    "while it accepts": "open@.new/activation.json",
    "just after it has accepted": "os.rename@.new+",
    "before the attempt is begun": "open@locks/1",
    "before the supervisor is started": "os.posix_spawn@",
    "just after the supervisor was started": "os.posix_spawn@+",
    "before the completion is published": "os.link@completion.json",
    "just after the completion was published": "os.link@completion.json+",
    "while the copy is written": "open@result.json",
    "before the copy is in its place": "os.rename@result.json",
    "just after the copy is in its place": "os.rename@result.json+",
}


def crash_once(services, serve, work, wait_bound, dies: str) -> bool:
    """One service process that dies at a step, then one that goes on; whether the first died."""
    taken = []

    def take() -> None:
        """A reader that takes the result away must never find it again."""
        with contextlib.suppress(FileNotFoundError):
            taken.append(json.loads(work.result.read_text()))
            work.result.unlink()

    first = serve(dies)
    services.add("job", work.quick(), result=str(work.result))
    with contextlib.suppress(errors.NoRoute):
        services.start("job", request="once")
    # From here on nobody but the service process may take a step, or it would not come to its own.
    with contextlib.suppress(subprocess.TimeoutExpired):
        first.process.wait(wait_bound if "@" in dies else 3)
    died = first.process.poll() == -signal.SIGKILL
    take()
    first.close()  # where it did not come to that step, it goes the ordinary way
    serve()
    begun = services.start("job", request="once")
    done = services.wait("job", begun.activation, wait_bound)
    services.status("job")
    take()
    assert (done.code, done.failed, done.tree_gone, done.ended_by) == (0, False, True, "itself")
    assert work.times == 1
    assert ids(services.state, "job") == [done.activation]
    assert [one["activation"] for one in taken] == [done.activation]
    left = {path.name for path in work.result.parent.iterdir()}
    assert left == set()
    directory = Path(layout.activation_directory(services.state, "job", done.activation))
    assert not [path for path in directory.iterdir() if path.name.startswith(".completion")] or died
    return died


@pytest.mark.parametrize("dies", STEPS.values(), ids=STEPS)
def test_once_whatever_it_was_doing(services, serve, work, wait_bound, dies):
    assert crash_once(services, serve, work, wait_bound, dies), "it did not come to that step"


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_once_at_every_single_step(tmp_path_factory, serve_in, wait_bound):
    """Every event that the interpreter reports, from the trigger to the sleep after it."""
    reached = 0
    for count in range(1, 500):
        if not serve_in(tmp_path_factory.mktemp("sweep"), str(count), crash_once):
            break
        reached = count
    assert reached > 50


def test_running_work_goes_on_and_is_found_again(services, serve, work, wait_bound):
    first = serve()
    services.add("job", work.held(after="exit 5"), result=str(work.result))
    begun = services.start("job")
    pid = identity.take(work.wait_up())
    first.kill()
    assert identity.still_alive(pid) is Alive.YES
    with pytest.raises(errors.NoRoute):
        services.start("job")
    serve()
    again = services.start("job")
    assert (again.activation, again.joined, again.state) == (begun.activation, True, "running")
    work.let_go()
    done = services.wait("job", begun.activation, wait_bound)
    assert (done.code, work.times) == (5, 1)
    assert done.root is not None
    assert done.root["pid"] == pid.pid


def test_what_ended_while_nobody_served_is_published_by_the_next(services, serve, work, wait_bound):
    first = serve()
    services.add("job", work.held(), result=str(work.result))
    begun = services.start("job")
    work.wait_up()
    first.kill()
    found = services.status("job").found
    assert found is not None
    work.let_go()
    for one in found.supervisors:
        identity.wait_dead(one, wait_bound)
    assert completion_of(services.state, "job", begun.activation) is None
    second = serve()
    assert services.serving()  # before it answers it has gone on with everything
    second.kill()
    done = completion_of(services.state, "job", begun.activation)
    assert done is not None
    assert done.code == 0
    assert json.loads(work.result.read_text())["activation"] == begun.activation


def test_a_waiting_caller_publishes_when_the_service_process_is_gone(
    services, serve, work, wait_bound
):
    first = serve()
    services.add("job", work.held(), result=str(work.result))
    begun = services.start("job")
    work.wait_up()
    first.kill()
    work.let_go()
    assert services.wait("job", begun.activation, wait_bound).code == 0
    assert json.loads(work.result.read_text())["activation"] == begun.activation


def test_killed_again_and_again_it_is_one_activation(services, serve, work, wait_bound):
    serve().kill()
    services.add("job", work.held())
    first = serve()
    begun = services.start("job")
    work.wait_up()
    first.kill()
    for _ in range(3):
        serve().kill()
    work.let_go()
    serve()
    assert services.wait("job", begun.activation, wait_bound).code == 0
    assert (work.times, ids(services.state, "job")) == (1, [begun.activation])


def test_a_second_service_process_is_refused(services, serve):
    serve()
    from lastout.services.server import Server

    with pytest.raises(errors.NoRoute, match="already"):
        Server(services.state)


def test_an_ordered_end_leaves_the_work_alone(services, serve, work, wait_bound):
    first = serve()
    services.add("job", work.held())
    begun = services.start("job")
    work.wait_up()
    process = services.quit()
    assert process is not None
    assert process["pid"] == first.process.pid
    assert first.process.wait(wait_bound) == 0
    assert services.status("job").state == "running"
    work.let_go()
    assert services.wait("job", begun.activation, wait_bound).code == 0


def test_a_killed_supervisor_is_told_as_such(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held(before="setsid sleep 120 &"))
    begun = services.start("job")
    work.wait_up()
    found = services.status("job").found
    assert found is not None
    front = found.supervisors[0]
    identity.signal(front, signal.SIGKILL)  # its keeper goes on, and stops what is there
    done = services.wait("job", begun.activation, wait_bound)
    assert (done.ended_by, done.tree_gone, done.remaining) == ("supervisor-lost", True, 0)
    assert done.failed
    assert done.stopped_count == 1


def test_both_supervisors_killed_is_not_called_an_empty_tree(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held())
    begun = services.start("job")
    work.wait_up()
    found = services.status("job").found
    assert found is not None
    one = load(services.state, "job", begun.activation)
    # Together, or the one that is left would stop the run and prove its end.
    fds = [identity.open_pidfd(each) for each in found.supervisors]
    for fd in fds:
        signal.pidfd_send_signal(fd, signal.SIGSTOP)
    for fd in fds:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)
    done = services.wait("job", begun.activation, wait_bound)
    assert (done.ended_by, done.reason, done.failed) == ("supervisor-lost", "lost", True)
    assert (done.tree_gone, done.remaining, done.code) == (False, None, None)
    assert one.attempts[-1].run == done.run


@pytest.mark.parametrize("kept", ["everything", "no record", "no lock"])
def test_a_reboot_ends_what_had_begun(services, serve, work, wait_bound, kept):
    """The files of another boot, as they are found after a machine went down; not all of them may
    have reached the disk, and the work is not executed again."""
    first = serve()
    services.add("job", work.held())
    begun = services.start("job")
    work.wait_up()
    first.kill()
    one = load(services.state, "job", begun.activation)
    record = Path(one.attempts[-1].record)
    lines = record.read_text()
    lock = Path(layout.locks_directory(services.state, "job")) / "1"
    told = lock.read_text()
    services.stop("job")
    directory = Path(layout.activation_directory(services.state, "job", begun.activation))
    (directory / "completion.json").unlink()
    (directory / "stop.json").unlink()
    other = "00000000-1111-2222-3333-444444444444"
    file = directory / "activation.json"
    file.write_text(file.read_text().replace(identity.boot_id(), other))
    record.write_text(lines.replace(identity.boot_id(), other))
    lock.write_text(told.replace(identity.boot_id(), other))
    if kept != "everything":
        record.unlink()
        lock.write_text(lock.read_text().splitlines()[0] + "\n")
    if kept == "no lock":
        lock.unlink()
    serve()
    done = services.wait("job", begun.activation, wait_bound)
    assert (done.ended_by, done.reason, done.failed) == ("reboot", "lost", True)
    assert work.times == 1


@pytest.mark.parametrize("dies", ["os.rename@.new+", "os.posix_spawn@"])
def test_a_caller_that_waits_hears_that_nobody_starts_it(services, serve, work, wait_bound, dies):
    first = serve(dies)
    services.add("job", work.quick())
    with pytest.raises(errors.NoRoute):
        services.run("job")
    first.died()
    [one] = ids(services.state, "job")
    with pytest.raises(errors.StillWaiting, match="lastout service serve"):
        services.wait("job", one)
    serve()
    assert services.wait("job", one, wait_bound).code == 0


@pytest.mark.root
def test_a_caller_that_may_only_read_is_told_all_the_same(services, serve, work, wait_bound):
    """In a sandbox: it can connect, and read, and write nothing."""
    serve()
    services.add("job", work.held(after="exit 6"))
    program = (
        "import sys; from lastout.services.store import Services\n"
        "begun, done = Services(sys.argv[1]).run('job', timeout=30)\n"
        "print(done.code)\n"
    )
    script = 'mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" && exec "$0" -c "$1" "$2"'
    caller = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, program, services.state],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        work.wait_up()
        work.let_go()
    finally:
        out, err = caller.communicate(timeout=wait_bound)
    if "mount" in err or "unshare" in err:
        pytest.skip(err)
    assert out == "6\n", err
