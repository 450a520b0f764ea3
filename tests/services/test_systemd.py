"""Services run by real managers of systemd, each in a room of its own; and the text of its units."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lastout
from lastout.services import layout, systemd
from lastout.services.definition import VERSION, Definition

HERE = Path(__file__).parent
SYSTEMD = Path("/lib/systemd/systemd")
ROOM = [
    *("unshare", "--mount", "--pid", "--fork", "--cgroup", "--uts"),
    *("--mount-proc", "--kill-child=KILL"),
]


def need_systemd() -> None:
    if shutil.which("systemctl") is None or not SYSTEMD.exists():
        pytest.skip("systemd is not installed")
    probe = subprocess.run([*ROOM, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no namespaces of its own here: {probe.stderr.strip()}")


@pytest.mark.root
@pytest.mark.parametrize("manager", ["systemd-user", "systemd"])
def test_the_whole_life_of_a_service(state, tmp_path, manager):
    need_systemd()
    state.mkdir(mode=0o700)
    program = [sys.executable, str(HERE / "in_systemd.py"), manager, str(state), str(tmp_path)]
    done = subprocess.run(
        [*ROOM, "sh", str(HERE / "systemd_room.sh"), manager, str(tmp_path), *program],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(lastout.__file__).parent.parent)},
    )
    if not (tmp_path / "status").exists():
        pytest.skip(f"no manager came up ({done.returncode}): {done.stderr[-300:]}")
    assert (tmp_path / "status").read_text() == "0\n", (tmp_path / "err").read_text()
    seen = json.loads((tmp_path / "out").read_text())
    assert seen.pop("cgroup").endswith(".service"), "it runs in the manager's cgroup"
    runner = seen.pop("runner")
    if runner is not None:  # systemd-run needs the bus
        assert runner is False, runner
    assert seen == {
        "chosen": True,
        "verify": [0, ""],
        "joined": True,
        "tool_named": True,
        "lives_on": "running",
        "held": [3, "itself", True, "agent"],
        "result": True,
        "published": True,
        "again": [[0, 0, 0], 3],
        "front_killed": ["supervisor-lost", True],
        "both_killed": ["supervisor-lost", False, True],
        "stopped": ["owner", True],
        # The user's manager is any process; the system's is known by its number.
        "by_manager": ["signal", "abort" if manager == "systemd-user" else "shutdown", True],
        "two": [1, [False, True]],
        "ran": 7,
        "completions": 7,
        "removed": 1,
    }


def definition(**fields: object) -> Definition:
    told = {"version": VERSION, "name": "job", "argv": ("true",), "cwd": "/", "env": {}, **fields}
    return Definition(**told)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["plain", "a b", "50%", 'a"b', "a$b", "a\\b", "ä"])
def test_a_unit_names_its_state_directory_whatever_that_is_called(tmp_path, word):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    state = tmp_path / word
    state.mkdir(mode=0o700)
    layout.make(str(state), "job")
    unit = tmp_path / "lastout-job.service"
    unit.write_text(systemd.unit_text(str(state), definition(manager="systemd-user")))
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unit.name not in verify.stderr
    assert str(unit) not in verify.stderr
    # What systemd makes of the quoting is what was meant: its own words for the command line.
    quoted = systemd._quoted(str(state))
    assert "\n" not in quoted
    assert f"--state {quoted} " in unit.read_text()


def test_without_a_manager_that_runs_it_is_refused(services, monkeypatch):
    monkeypatch.setattr(systemd, "available", lambda manager: False)
    from lastout.services import errors

    with pytest.raises(errors.NoRoute, match="systemd-user"):
        services.add("job", ["true"], manager="systemd-user")
    assert services.statuses() == []
    assert systemd.choose() == "lastout"
    assert os.listdir(layout.services_directory(services.state)) == []
