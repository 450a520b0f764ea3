"""A server that is below others: how deep agents may ask agents, and who starts their jobs."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from client import BOUND, SOURCE, serving

from lastout import jobs


@pytest.fixture
def job_serve(state):
    """A `lastout job serve` outside of every run."""
    started = []

    def start():
        started.append(serving(state, os.environ))

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(BOUND)


@pytest.mark.parametrize("told", ["option", "environment", "above a short environment"])
def test_agents_may_ask_agents_only_so_deep(connect, told):
    match told:
        case "option":
            client = connect("--depth", "2")
        case "environment":
            client = connect(env={"LASTOUT_DEPTH": "2"})
        case _:  # the shell has it, and gives its child nothing
            inner = f'env -i PYTHONPATH="{SOURCE}" PATH="$PATH" HOME="$HOME" "$@"; exit $?'
            client = connect(env={"LASTOUT_DEPTH": "2"}, before=["sh", "-c", inner, "sh"])
    for name in ("ask_agent", "spawn_agent"):
        text = client.refused(name, agent="scripted", prompt="x")
        assert ("2 deep" in text, "--max-depth" in text) == (True, True)
    assert client.call("run_command", command=["true"])["result"]["exit_code"] == 0
    assert len(client.call("job_list")["jobs"]) == 1


def test_a_job_is_one_deeper_and_knows_nothing_of_its_askers_client(connect, tmp_path):
    about_the_client = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "abc",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "17",
    }
    client = connect("--depth", "1", env=about_the_client)
    done = client.call("run_command", command=["env"])
    said = dict(line.split("=", 1) for line in done["result"]["stdout"].splitlines() if "=" in line)
    assert said["LASTOUT_DEPTH"] == "2"
    assert {name: said.get(name) for name in about_the_client} == {
        "CLAUDECODE": None,
        "CLAUDE_CODE_SESSION_ID": None,
        "CLAUDE_CODE_ENTRYPOINT": None,
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "17",
    }
    assert done["asked_by"] == "claude:abc"
    prompt = f"/run echo $LASTOUT_DEPTH >{tmp_path}/depth"
    client.call("ask_agent", agent="scripted", prompt=prompt)
    assert (tmp_path / "depth").read_text() == "2\n"


def test_below_a_supervisor_somebody_outside_starts_what_is_in_the_background(
    connect, state, job_serve
):
    run = [sys.executable, "-m", "lastout", "run", "--state", str(state), "--"]
    client = connect(before=run)
    for name, more in {
        "spawn_agent": {"agent": "scripted", "prompt": "x"},
        "run_command": {"command": ["true"], "background": True},
    }.items():
        assert "lastout job serve" in client.refused(name, **more)
    assert client.call("job_list") == {"jobs": []}, "nothing was written"
    # What blocks needs nobody.
    asked = client.call("ask_agent", agent="scripted", prompt="hello")
    assert "hello" in asked["result"]["answer"]
    job_serve()
    client.call("spawn_agent", agent="scripted", prompt="/run sleep 301", name="a")
    client.call("spawn_agent", agent="scripted", prompt="hello", name="b", keep_s=0)
    assert "hello" in client.call("job_result", job="b", wait_s=60)["result"]["answer"]
    blocking = client.begin("run_command", command=["sleep", "302"], name="c")
    client.until_progress(blocking, "started")
    # The whole run of the asker is ended.
    client.process.send_signal(signal.SIGTERM)
    client.process.wait(BOUND)
    store = jobs.open_jobs(state)
    assert store.get("c").wait(60).failed
    assert store.get("a").status().state == "running"
    store.get("a").cancel(by="the test")
    assert store.get("a").wait(60).ended_by == "the test"
