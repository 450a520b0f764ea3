"""A service is started by name, and lives on when its asker is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from client import BOUND, SOURCE

from lastout.services.store import open_services


@pytest.fixture
def services(state, nothing_left):
    """Those of an owner whose service process runs outside every tree."""
    state.mkdir(mode=0o700)
    made = open_services(state)
    process = subprocess.Popen(
        [sys.executable, "-m", "lastout", "service", "serve", "--state", str(state)],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    deadline = time.monotonic() + BOUND
    while made.serving() is None:
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield made
    process.send_signal(signal.SIGTERM)
    process.wait(BOUND)


def test_a_service_is_started_by_name_and_outlives_its_asker(connect, state, services, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    services.add("report", ["sh", "-c", f"cat {go}; exit 3"], manager="lastout")
    run = [sys.executable, "-m", "lastout", "run", "--state", str(state), "--"]
    client = connect(before=run)
    begun = client.call("service_start", name="report")
    assert (begun["state"] in ("accepted", "starting", "running"), begun["service"]) == (
        True,
        "report",
    )
    again = client.call("service_start", name="report", wait_s=0.1)
    assert (again["activation"], again["joined"]) == (begun["activation"], True)
    # The asker is ended with everything that it has started.
    client.process.send_signal(signal.SIGTERM)
    client.process.wait(BOUND)
    client = connect()
    looked = client.call("service_start", name="report", activation=begun["activation"])
    assert "failed" not in looked
    Path(go).write_text("the end\n")
    done = client.call("service_start", name="report", activation=begun["activation"], wait_s=BOUND)
    assert (done["state"], done["failed"], done["exit_code"]) == ("completed", True, 3)
    assert (done["output"], done["remaining_count"]) == ("the end\n", 0)
    refused = client.refused("service_start", name="report", activation="7-abcdef")
    assert "7-abcdef" in refused
