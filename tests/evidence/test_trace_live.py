"""Tracing for real: the service, what is left behind, and what can be had without root."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import leftovers
from harness.identity import Identity
from lastout.evidence.trace import TracingUnavailable
from lastout.evidence.trace import source as sources
from lastout.evidence.trace.source import Source

from .live import PYTHON, Told, instances, left_instances, run, settle

pytestmark = pytest.mark.root


def next_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    ready, _, _ = select.select([process.stderr], [], [], 20)
    assert ready, "the service says nothing"
    return process.stderr.readline().decode()


def test_nothing_stays_behind_after_a_traced_run(tmp_path: Path) -> None:
    told = run(tmp_path, "true", traced=True)
    assert [line["event"] for line in told.lines][-1] == "trace-ended"
    assert told.lines[-1]["why"] == ""
    assert left_instances() == []


def test_a_traced_run_holds_nothing_of_the_run_back(tmp_path: Path) -> None:
    """The pipe of stdout ends with the run, not with its tracer."""
    told = run(tmp_path, "sh", "-c", "echo out", traced=True)
    assert told.returncode == 0
    assert "inherited_children" not in told.lines[0] or told.lines[0]["inherited_children"] == 0
    started = next(line for line in told.lines if line["event"] == "started")
    assert started["inherited_children"] == 0


def test_a_killed_tracer_leaves_no_instance_and_says_that_it_did_not_end(
    tmp_path: Path, nothing_left: set[Identity]
) -> None:
    path = tmp_path / "r.jsonl"
    front = subprocess.Popen(
        [PYTHON, "-m", "lastout", "run", "--record", str(path), "--trace", "--", "sh", "-c",
         "echo up; read line"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert front.stdout is not None
    assert front.stdin is not None
    assert front.stdout.readline() == b"up\n"
    traced = [stat for stat in leftovers.living(nothing_left) if b"trace.one" in _cmdline(stat.pid)]
    # The tracer is the older of the two, its guard the child of it.
    tracer = min(traced, key=lambda stat: stat.start)
    tracer = next(stat for stat in traced if stat.pid == tracer.pid or stat.ppid != tracer.pid)
    assert len(instances(tracer.pid)) == 2
    os.kill(tracer.pid, signal.SIGKILL)
    front.stdin.close()
    front.wait(20)
    front.stdout.close()
    settle(nothing_left)
    assert instances(tracer.pid) == []
    told = Told(front.returncode, path)
    assert "trace-unfinished" in told.kinds()
    assert told.says("root-exited") == "The root exited with code 1."


def test_instances_of_dead_tracers_are_swept(tmp_path: Path) -> None:
    code = (
        "import os; from lastout.evidence.trace.instance import *;"
        "fs = Tracefs(); name = 'lastout.4194000.1.tree'; os.mkdir(fs.root + '/instances/' + name);"
        "assert sweep(fs) >= 1; assert name not in os.listdir(fs.root + '/instances')"
    )
    subprocess.run([PYTHON, "-c", code], check=True)


def test_the_service_joins_runs_by_identity(tmp_path: Path, nothing_left: set[Identity]) -> None:
    state = tmp_path / "state"
    service = subprocess.Popen(
        [PYTHON, "-m", "lastout", "trace", "--state", str(state)], stderr=subprocess.PIPE
    )
    try:
        assert "tracefs" in next_line(service)
        first = subprocess.Popen(
            [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", "first", "--",
             "sh", "-c", "echo up; sleep 60"],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert first.stdout is not None
        assert first.stdout.readline() == b"up\n"
        path = state / "runs" / "first" / "first.jsonl"
        _wait_for(path, "trace-began")
        root = next(
            line["root"]["pid"]
            for line in map(json.loads, path.read_text().splitlines())
            if line["event"] == "started"
        )
        os.kill(root, signal.SIGKILL)
        first.wait(20)
        first.stdout.close()
        _wait_for(path, "trace-ended")
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(20) == 0
        assert service.stderr is not None
        service.stderr.close()
    settle(nothing_left)
    told = Told(0, path)
    assert f"SIGKILL for the root came from the owner, pid {os.getpid()} (" in told.says("sender")
    assert left_instances() == []


def test_a_service_that_is_stopped_says_so_in_the_records(
    tmp_path: Path, nothing_left: set[Identity]
) -> None:
    state = tmp_path / "state"
    service = subprocess.Popen(
        [PYTHON, "-m", "lastout", "trace", "--state", str(state)], stderr=subprocess.PIPE
    )
    next_line(service)
    front = subprocess.Popen(
        [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", "one", "--", "sh", "-c",
         "read line"],
        stdin=subprocess.PIPE,
    )  # fmt: skip
    path = state / "runs" / "one" / "one.jsonl"
    _wait_for(path, "trace-began")
    service.send_signal(signal.SIGTERM)
    assert service.wait(20) == 0
    assert service.stderr is not None
    assert front.stdin is not None
    service.stderr.close()
    front.stdin.close()
    front.wait(20)
    settle(nothing_left)
    told = Told(0, path)
    assert "the tracer was stopped" in told.says("trace-ended")
    assert left_instances() == []


def test_without_root_ends_are_seen_and_senders_are_not(
    tmp_path: Path, nothing_left: set[Identity]
) -> None:
    """As the nobody user, where the kernel admits it; else it is refused, never left out."""
    state = tmp_path / "s"
    tmp_path.chmod(0o711)
    state.mkdir()
    os.chown(state, 65534, 65534)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o711)
    done = subprocess.run(
        [_python_for_others(), "-B", "-m", "lastout", "run", "--state", str(state), "--run", "one",
         "--trace", "--", "sh", "-c", "sh -c 'exit 7'; exit 3"],
        user=65534, group=65534, extra_groups=[], capture_output=True, text=True, cwd="/",
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    path = state / "runs" / "one" / "one.jsonl"
    if done.returncode == 125:
        assert "no tracing" in done.stderr
        return
    settle(nothing_left)
    told = Told(done.returncode, path)
    assert told.claim("trace-began").facts["senders"] is False
    assert "exited with code 7" in told.says("traced-exit")


def test_where_nothing_can_be_traced_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*arguments: object) -> None:
        raise TracingUnavailable("not here")

    monkeypatch.setattr(sources, "Tracefs", no)
    monkeypatch.setattr(sources, "Connector", no)
    with pytest.raises(TracingUnavailable, match="not here; not here"):
        Source()


def test_a_tracer_that_cannot_begin_starts_nothing(tmp_path: Path) -> None:
    """In a pid namespace of its own the kernel's pids are not ours: refused with the reason."""
    path = tmp_path / "r.jsonl"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "lastout", "run",
         "--record", str(path), "--trace", "--", "touch", str(tmp_path / "ran")],
        capture_output=True, text=True,
    )  # fmt: skip
    if "pid namespace" in done.stderr:
        assert done.returncode == 125
        assert not (tmp_path / "ran").exists()
    else:
        # The connector may still admit us; then it ran, and was traced by that.
        assert (tmp_path / "ran").exists()


def _python_for_others() -> str:
    """A Python of this version that another user may run, or a skip."""
    version = f"python3.{sys.version_info.minor}"
    for python in (PYTHON, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            subprocess.run([python, "-c", ""], user=65534, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("no Python here that another user may run")


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _wait_for(path: Path, event: str) -> None:
    from lastout.evidence.watch import Watch

    with Watch() as watch:
        watch.add(str(path.parent)) if path.parent.exists() else None
        for _ in range(400):
            if path.exists() and f'"event":"{event}"' in path.read_text():
                return
            if path.parent.exists():
                watch.add(str(path.parent))
            watch.wait(0.05)
    raise AssertionError(f"no {event} in {path}")
