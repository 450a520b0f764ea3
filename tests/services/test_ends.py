"""How an activation ends when somebody ends it, or cannot be told of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from harness.freezer import freezer
from lastout.cli._services import joined, status_lines
from lastout.evidence.events import TreeUnproven
from lastout.evidence.journal import read
from lastout.evidence.watch import Watch
from lastout.leases import locks
from lastout.services import errors, layout, waiting
from lastout.services.activation import load
from lastout.services.completion import load as load_completion
from lastout.services.definition import load as definition_of
from lastout.services.definition import store


def test_its_owner_stops_it_with_everything_it_started(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held(before="setsid sleep 120 &"))
    begun = services.start("job")
    work.wait_up()
    done = services.stop("job", by="the owner")
    assert (done.activation, done.ended_by, done.reason) == (begun.activation, "owner", "abort")
    assert (done.by, done.signal, done.failed) == ("the owner", "TERM", True)
    assert (done.stopped_count, done.remaining, done.tree_gone) == (1, 0, True)
    assert len(done.stopped) == 1
    with pytest.raises(errors.NotRunning):
        services.stop("job")


def test_its_owner_needs_no_service_process_to_stop_it(services, serve, work, wait_bound):
    first = serve()
    services.add("job", work.held())
    services.start("job")
    work.wait_up()
    first.kill()
    assert services.stop("job", now_=True).ended_by == "owner"


def test_accepted_and_never_started_it_can_be_stopped(services, serve, work, wait_bound):
    first = serve("os.posix_spawn@")
    services.add("job", work.quick(), result=str(work.result))
    with pytest.raises(errors.NoRoute):
        services.start("job")
    first.died()
    assert services.status("job").state == "starting"
    # A look keeps nobody from coming up: there is no newer epoch.
    assert locks.epochs(layout.locks_directory(services.state, "job")) == [1]
    done = services.stop("job")
    assert (done.ended_by, done.failed, done.remaining) == ("owner", True, 0)
    serve()
    assert services.status("job").state == "ended"
    assert work.times == 0
    assert json.loads(work.result.read_text())["ended_by"] == "owner"


@pytest.mark.root
def test_nothing_is_published_before_the_tree_is_gone(services, serve, work, tmp_path, wait_bound):
    """A member that cannot be killed now: the bound of the stop is over, and its keeper stays."""
    serve()
    before = f"setsid sh -c 'echo $$ >{tmp_path}/pid; read x <{work.directory}/never' &"
    os.mkfifo(work.directory / "never")
    budget = "codex-sdk"
    services.add(
        "job", work.held(before=f"{before} until [ -s {tmp_path}/pid ]; do :; done;"), budget=budget
    )
    begun = services.start("job")
    work.wait_up()
    with freezer() as frozen:
        frozen.freeze(int((tmp_path / "pid").read_text()))
        with pytest.raises(errors.StillWaiting):
            services.stop("job")
        status = services.status("job")
        assert status.state == "running"
        assert status.found is not None
        record = status.found.activation.attempts[-1].record
        assert any(isinstance(event, TreeUnproven) for event in read(record).events)
        assert load_completion(services.state, "job", begun.activation) is None
        again = services.start("job")
        assert (again.activation, again.joined) == (begun.activation, True)
        frozen.thaw()
        done = services.wait("job", begun.activation, wait_bound)
    assert (done.ended_by, done.tree_gone, done.remaining) == ("owner", True, 0)


def test_the_deadline(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held(before="setsid sleep 120 &"), timeout=0.5)
    _, done = services.run("job", timeout=wait_bound)
    assert (done.ended_by, done.reason, done.failed) == ("deadline", "timeout", True)
    assert (done.tree_gone, done.stopped_count) == (True, 1)


def test_leftovers_are_stopped_and_named_before_it_is_published(
    services, serve, tmp_path, wait_bound
):
    serve()
    script = f"setsid sleep 120 & echo $! >{tmp_path}/pid; exit 0"
    services.add("job", ["sh", "-c", script])
    _, done = services.run("job", timeout=wait_bound)
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert [one["pid"] for one in done.stopped] == [pid]
    assert (done.code, done.failed, done.ended_by) == (0, False, "itself")


def test_a_command_that_has_gone_is_a_completion(services, serve, tmp_path, wait_bound):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    serve()
    services.add("job", [str(program)])
    program.unlink()
    _, done = services.run("job", timeout=wait_bound)
    assert (done.ended_by, done.failed, done.code) == ("not-started", True, None)
    assert "No such file" in done.why


def test_an_account_that_has_gone_is_a_completion(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick())
    gone = msgspec.structs.replace(definition_of(services.state, "job"), user="no-such-user")
    store(services.state, gone)
    _, done = services.run("job", timeout=wait_bound)
    assert (done.ended_by, done.failed) == ("not-started", True)
    assert "no-such-user" in done.why
    assert work.times == 0


@pytest.mark.root
def test_only_root_runs_work_as_somebody_else(tmp_path):
    """Asked by another user, for a third one."""
    script = (
        "import os, sys\n"
        "from lastout.services.store import Services\n"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "os.makedirs(sys.argv[1], 0o700)\n"
        "try: Services(sys.argv[1]).add('job', ['true'], user='root', cwd='/', manager='lastout')\n"
        "except Exception as error: print(error)\n"
        "print(os.listdir(sys.argv[1]))\n"
    )
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o777)
        argv = [sys.executable, "-c", script, f"{top}/state"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        subprocess.run(["rm", "-rf", f"{top}/state"], check=True)
    refusal, listing = done.stdout.splitlines() or [done.stderr, ""]
    assert "only root" in refusal
    assert listing == "[]"


def test_a_result_directory_that_has_gone_loses_nothing(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick(), result=str(work.result))
    work.result.parent.rmdir()
    begun, done = services.run("job", timeout=wait_bound)
    assert not done.failed
    note = services.status("job").note
    assert note is not None
    assert str(work.result) in note
    work.result.parent.mkdir()
    assert services.status("job").note is None
    assert json.loads(work.result.read_text())["activation"] == begun.activation
    work.result.unlink()
    services.status("job")
    assert not work.result.exists(), "it was delivered once"


@pytest.mark.root
def test_a_result_directory_that_is_full_loses_nothing(services, serve, work, wait_bound):
    place = work.result.parent
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        filler = place / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        serve()
        services.add("job", work.quick(), result=str(work.result))
        begun, done = services.run("job", timeout=wait_bound)
        assert not done.failed
        note = services.status("job").note
        assert note is not None
        assert "No space left" in note
        assert not [path for path in place.iterdir() if path != filler]
        filler.unlink()
        assert services.status("job").note is None
        assert json.loads(work.result.read_text())["activation"] == begun.activation
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_replaced_definition_is_for_the_next_activation(services, serve, work, wait_bound):
    serve()
    token = services.add("job", work.held(after="exit 1"))
    begun = services.start("job")
    work.wait_up()
    services.add("job", ["sh", "-c", "exit 2"], replace=True, token=token)
    with pytest.raises(errors.AlreadyRunning):
        services.remove("job")
    work.let_go()
    assert services.wait("job", begun.activation, wait_bound).code == 1
    assert services.run("job", timeout=wait_bound)[1].code == 2
    assert load(services.state, "job", begun.activation).definition.argv[-1].endswith("exit 1")
    services.remove("job", token=token)
    with pytest.raises(errors.NoSuchService):
        services.status("job")


@pytest.mark.parametrize("seconds", [1e300, math.inf])
def test_a_wait_may_be_longer_than_a_poll(tmp_path, seconds):
    with Watch() as watch:
        watch.add(str(tmp_path))
        (tmp_path / "news").touch()
        assert waiting._sleep(watch, {}, None, seconds)


def test_a_deadline_that_no_supervisor_takes_is_refused_before_anything_is_written(services):
    with pytest.raises(ValueError, match="at most 2000000 seconds"):
        services.add("job", ["true"], timeout=2_000_001)
    assert services.statuses() == []
    services.add("job", ["true"], timeout=2_000_000)


def test_people_are_told_of_a_service_in_words(services, serve, work, wait_bound):
    serve()
    services.add("job", ["sh", "-c", "setsid sleep 120 & echo a b"], timeout=90)
    assert list(status_lines(services.status("job")))[-1] == "state       idle"
    _, done = services.run("job", request="r-1", timeout=wait_bound)
    told = "\n".join(status_lines(services.status("job")))
    assert "what        sh -c 'setsid sleep 120 & echo a b'\n" in told
    assert "deadline    90s\n" in told
    assert f"activation  {done.activation}, asked for at" in told
    assert f"run         {done.run}  (lastout why {done.run})\n" in told
    assert told.endswith(f"outcome     done: {done.why}\nstopped     1: {done.stopped[0]['pid']}")
    assert "None" not in told
    again = services.start("job", request="r-1")
    assert "which has ended" in joined(again)
