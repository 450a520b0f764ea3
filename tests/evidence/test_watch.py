"""Being woken by what changes in a directory, with the kernel's help and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NONE = "/proc/sys/user/max_inotify_instances"


def without_inotify(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program in a user namespace that has no inotify instance for anybody."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    argv = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        f'echo 0 >{NONE} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespace, or none whose limits can be set, may be made here")
    return subprocess.run(
        [*argv, sys.executable, "-c", script, *words],
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip


def test_where_all_instances_are_used_up_it_looks_now_and_then(tmp_path: Path) -> None:
    script = """
import os, select, sys
from lastout.evidence.watch import Watch
watch = Watch()
assert watch.add(sys.argv[1]) and not watch.add(sys.argv[1])
for _ in range(2):
    assert select.select([watch.descriptor], [], [], 30)[0]
    assert watch.changed() is None, "anything may have changed"
    assert not select.select([watch.descriptor], [], [], 0)[0]
assert watch.wait(None)
watch.remove(sys.argv[1])
print("looked")
"""
    done = without_inotify(script, str(tmp_path))
    assert done.stdout == "looked\n", done.stderr


def test_jobs_run_are_waited_for_and_cancelled_without_inotify(tmp_path: Path) -> None:
    script = """
import sys
from lastout.jobs import Command, open_jobs
store = open_jobs(sys.argv[1])
store.set_limit(1)
first = store.submit(Command(["sh", "-c", "read line <" + sys.argv[2]]))
second = store.submit(Command(["true"]))
third = store.submit(Command(["true"]))
assert second.cancel()
print(second.wait(30).why)
with open(sys.argv[2], "w") as go:
    go.write("on\\n")
print(first.wait(30).failed, third.wait(30).failed)
"""
    go = tmp_path / "go"
    os.mkfifo(go)
    done = without_inotify(script, str(tmp_path / "state"), str(go))
    assert done.stdout == "abort\nFalse False\n", done.stderr
