"""A real agent asks for a service from its own tool and is cancelled: its tools go, the service stays."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import anyio
import pytest
from loopback.server import serve
from real_agents import BOUND, Place, scenarios

import lastout
from lastout import identity
from lastout.cli._services import serve_detached
from lastout.host import open_host
from lastout.identity import Alive, from_record
from lastout.services.store import Services

pytestmark = pytest.mark.anyio

# The tool starts one thing itself, in a session of its own, and has another one done by the service.
ASK = (
    "(setsid sh -c 'echo $$ >{cwd}/own; exec sleep 301' </dev/null >/dev/null 2>&1 &); "
    "env -i PATH=$PATH PYTHONPATH={source} {python} -m lastout service start deploy --state {state} "
    ">{cwd}/activation; until [ -s {cwd}/own ]; do :; done; echo up >{up}; sleep 301; true"
)


@pytest.fixture
def deploying(tmp_path):
    """A place whose model asks for the tool above."""
    told = {
        "cwd": tmp_path,
        "up": tmp_path / "up",
        "state": tmp_path / "state",
        "python": sys.executable,
        "source": Path(lastout.__file__).parent.parent,
    }
    ask = [{"shell": ASK.format(**told)}, {"text": "asked"}]
    with serve({**scenarios(tmp_path / "up"), "deploy": ask}) as model:
        yield Place(tmp_path, model)


@pytest.fixture
def services(deploying):
    deploying.state.mkdir(mode=0o700)
    made = Services(str(deploying.state))
    process = serve_detached(made.state)
    yield made
    made.quit()
    fd = identity.from_record({**process, "boot_id": identity.boot_id(), "pidns": identity.pidns()})
    assert fd is not None
    assert identity.wait_dead(fd, BOUND) is Alive.NO


async def test_a_cancelled_agent_leaves_the_service_alone(deploying, services, name):
    place = deploying
    go = place.directory / "go"
    os.mkfifo(go)
    script = f"echo $$ >{place.directory}/work; read line <{go}"
    services.add("deploy", ["sh", "-c", script], manager="lastout")
    kind = place.kind(name)
    async with open_host(state=place.state) as host:
        chat = await host.open("k", kind.adapter, cwd=place.cwd, options=kind.options)
        message = await chat.send("[[deploy]]")
        await anyio.to_thread.run_sync(place.wait_up)
        activation = (place.directory / "activation").read_text().strip()
        own = identity.take(int((place.directory / "own").read_text()))
        run = message.run
        assert await chat.stop() == "exited"
    [gone] = [line for line in place.record(run) if line["event"] == "tree-gone"]
    assert (own.pid, own.start) in {(one["pid"], one["start"]) for one in gone["stopped"]}
    assert identity.still_alive(own) is Alive.NO
    status = services.status("deploy")
    assert (status.state, status.found.activation.id) == ("running", activation)
    assert status.found.activation.requested_by.run == run
    end = os.open(go, os.O_WRONLY)
    assert select.select([], [end], [], BOUND)[1]
    os.write(end, b"go\n")
    os.close(end)
    done = await anyio.to_thread.run_sync(services.wait, "deploy", activation, BOUND)
    assert (done.code, done.ended_by, done.requested_by["run"]) == (0, "itself", run)
    assert from_record(done.root) is not None
