"""Side by side: what an agent starts itself is stopped with it, what it asked a service for is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from lastout import identity
from lastout.evidence.events import TreeGone
from lastout.evidence.settled import settled
from lastout.identity import Alive

LASTOUT = f"{sys.executable} -m lastout"


def agent(services, tmp_path, script: str) -> subprocess.Popen[bytes]:
    """An agent whose tool runs a script, under `lastout run`."""
    state = services.state
    argv = [sys.executable, "-m", "lastout", "run", "--state", state, "--run", "agent"]
    return subprocess.Popen([*argv, "--", "sh", "-c", script], stdin=subprocess.DEVNULL)


def test_cancelling_the_agent_leaves_the_service_alone(services, serve, work, tmp_path, wait_bound):
    serve()
    services.add("deploy", work.held(after="exit 0"), result=str(work.result))
    up = tmp_path / "agent-up"
    os.mkfifo(up)
    process = agent(
        services,
        tmp_path,
        f"setsid sh -c 'echo $$ >{tmp_path}/tool; exec sleep 300' &\n"
        f"setsid {LASTOUT} service start deploy --state {services.state} >{tmp_path}/activation\n"
        f"until [ -s {tmp_path}/tool ]; do :; done; echo ready >{up}\nwait",
    )
    try:
        with open(up) as said:
            assert said.read() == "ready\n"
        pid = identity.take(work.wait_up())
        tool = identity.take(int((tmp_path / "tool").read_text()))
        activation = (tmp_path / "activation").read_text().strip()
        process.send_signal(signal.SIGTERM)
        process.wait(wait_bound)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(wait_bound)
    record = f"{services.state}/runs/agent/agent.jsonl"
    gone = settled(record).final
    assert isinstance(gone, TreeGone)
    # The tool is gone, and named; the service's work is neither.
    named = {(one.pid, one.start) for one in gone.stopped}
    assert (tool.pid, tool.start) in named
    assert identity.still_alive(tool) is Alive.NO
    assert (pid.pid, pid.start) not in named
    assert identity.still_alive(pid) is Alive.YES
    found = services.status("deploy").found
    assert found is not None
    assert (found.state.value, found.activation.id) == ("running", activation)
    assert found.activation.requested_by.run == "agent"
    work.let_go()
    done = services.wait("deploy", activation, wait_bound)
    assert (done.code, done.ended_by) == (0, "itself")
    told = json.loads(work.result.read_text())
    assert (told["activation"], told["requested_by"]["run"]) == (activation, "agent")


def test_a_member_of_a_run_is_not_the_owner(services, serve, work, tmp_path, wait_bound):
    serve()
    token = services.add("deploy", work.held())
    begun = services.start("deploy")
    work.wait_up()
    asked = [
        f"stop deploy --state {services.state}",
        f"remove deploy --state {services.state}",
        f"add deploy --replace --state {services.state} -- true",
        f"add other --state {services.state} -- true",
        f"serve --detach --state {tmp_path}/other",
    ]
    script = "".join(f"{LASTOUT} service {words}; echo $?\n" for words in asked)
    out = subprocess.run(
        [sys.executable, "-m", "lastout", "run", "--no-record", "--", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.stdout.split() == ["1"] * len(asked), out.stderr
    assert out.stderr.count("inside") == len(asked), out.stderr
    assert services.status("deploy").state == "running"
    # Its owner has gone into a run of its own, with the token.
    stop = f"{LASTOUT} service stop deploy --token {token} --state {services.state} --json"
    out = subprocess.run(
        [sys.executable, "-m", "lastout", "run", "--no-record", "--", "sh", "-c", stop],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(out.stdout)
    assert (told["activation"], told["ended_by"]) == (begun.activation, "owner")


def test_a_tool_that_waits_dies_with_its_agent_and_the_service_does_not(
    services, serve, work, tmp_path, wait_bound
):
    serve()
    services.add("deploy", work.held())
    process = agent(
        services, tmp_path, f"exec {LASTOUT} service start deploy --wait --state {services.state}"
    )
    try:
        pid = identity.take(work.wait_up())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(wait_bound)
    assert identity.still_alive(pid) is Alive.YES
    assert services.status("deploy").state == "running"
    assert services.stop("deploy").ended_by == "owner"
