"""The real Codex and the real Claude Code ask each other, over a scripted model on this machine."""

from __future__ import annotations

import os
import signal

import anyio
import pytest
from client import BOUND
from loopback.server import serve
from real_agents import need, scenarios
from rig import APPROVED, OTHER, Rig, mcp

from harness.jobs import runners_end
from lastout import jobs
from lastout.host import open_host
from lastout.jobs.feed import Ended
from lastout.proctable import read_stat

pytestmark = pytest.mark.anyio

ASKS = {  # what makes an agent ask before it acts: its options, and how the model calls the shell
    "codex": (
        {"approval": "on-request", "sandbox": "read-only"},
        {"args": {"sandbox_permissions": "require_escalated", "justification": "why not"}},
    ),
    "claude": ({"approval": "default"}, {}),
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["codex", "claude"])
def asker(request):
    need("codex")
    need("claude")
    return request.param


@pytest.fixture
def rig(tmp_path, nothing_left):
    with serve(scenarios(tmp_path / "up")) as model:
        made = Rig(tmp_path, model)
        yield made
        assert [one for one in jobs.open_jobs(made.state).list() if not one.ended] == []
        runners_end(str(made.state), nothing_left)


@pytest.fixture
def job_serve(rig):
    process = rig.serve()
    yield process
    process.send_signal(signal.SIGTERM)
    process.wait(BOUND)


def play(rig, **scenes):
    rig.model.script.scenarios.update(scenes)


async def asked(host, rig, asker):
    kind = rig.kind(asker)
    return await host.open("k", kind.adapter, cwd=rig.cwd, options=kind.options)


async def says(chat, text):
    message = await (await chat.send(text)).done()
    assert message.state == "completed", message


def test_one_asks_the_other_and_finds_what_failed(rig, asker):
    """Without lastout around the asker: its jobs in the background need nobody to start them."""
    other = OTHER[asker]
    ask = {"agent": other, "prompt": "[[fail]]", **APPROVED[other]}
    play(
        rig,
        both=[
            mcp("ask_agent", **ask),
            mcp("spawn_agent", name="b", keep_s=0, **ask),
            mcp("job_result", job="b", wait_s=BOUND),
            {"text": "done"},
        ],
    )
    process = rig.plain(asker, "[[both]]")
    said = process.communicate(timeout=BOUND)[0]
    assert (process.returncode, b"done" in said) == (0, True), said
    blocking, begun, taken = rig.told("both")
    assert (begun["state"], begun["job"]) == ("queued", taken["job"])
    for seen in (blocking, taken):
        assert (seen["state"], seen["agent"], seen["failed"]) == ("ended", other, False)
        result = seen["result"]
        assert (result["answer"], result["remaining_count"]) == ("noted", 0)
        (failure,) = result["failed_commands"]
        assert (failure["exit_code"], "some output" in failure["output"]) == (7, True)
        assert seen["asked_by"].startswith(f"{asker}:")
    assert blocking["asked_by"] == taken["asked_by"]
    assert jobs.open_jobs(rig.state).get("b").status().taken == (1,)


async def test_an_approval_reaches_the_asker_and_is_allowed(rig, asker):
    await approval(rig, asker, "allow")


@pytest.mark.torture
async def test_an_approval_reaches_the_asker_and_is_refused(rig, asker):
    await approval(rig, asker, "no")


async def approval(rig, asker, choice):
    other = OTHER[asker]
    options, how = ASKS[other]
    mark = rig.directory / "mark"
    # Codex offers no refusal here after which the turn goes on.
    said = choice if choice == "allow" else {"codex": "cancel", "claude": "deny"}[other]
    play(
        rig,
        touch=[{"shell": f"touch {mark}", **how}, {"text": "after it"}],
        ask=[
            mcp("ask_agent", agent=other, prompt="[[touch]]", name="a", **options),
            mcp("job_answer", job="a", choice=said),
            {"text": "done"},
        ],
    )
    async with open_host(state=rig.state) as host:
        await says(await asked(host, rig, asker), "[[ask]]")
    asking, answered = rig.told("ask")
    (question,) = asking["questions"]
    assert (asking["state"], f"touch {mark}" in question["prompt"]) == ("running", True)
    assert said in {one["meaning"] for one in question["choices"]}
    assert (answered["state"], mark.exists()) == ("ended", choice == "allow")
    if said == "cancel":
        assert (answered["failed"], answered["result"]["status"]) == (True, "interrupted")
    else:
        assert answered["result"]["answer"] == "after it"


@pytest.mark.parametrize("victim", ["server", "client"])
async def test_the_server_or_its_client_is_killed_in_the_middle(rig, job_serve, asker, victim):
    other = OTHER[asker]
    held, go = rig.directory / "held", rig.directory / "go"
    os.mkfifo(held)
    os.mkfifo(go)
    ask = {"agent": other, **APPROVED[other]}
    play(
        rig,
        hold=[{"shell": f"echo up >{held}; cat {go}"}, {"text": "held"}],
        both=[
            mcp("spawn_agent", name="b", prompt="[[hold]]", keep_s=0, **ask),
            mcp("ask_agent", name="a", prompt="[[tree]]", **ask),
            {"text": "done"},
        ],
        fetch=[
            mcp("job_result", job="b", wait_s=BOUND),
            mcp("job_result", job="a"),
            {"text": "done"},
        ],
    )
    store = jobs.open_jobs(rig.state)
    async with open_host(state=rig.state) as host:
        chat = await asked(host, rig, asker)
        message = await chat.send("[[both]]")
        await anyio.to_thread.run_sync(rig.wait_up)
        await anyio.to_thread.run_sync(held.read_text)
        server = read_stat(store.get("a").status().runner.pid).ppid
        client = read_stat(server).ppid
        os.kill(server if victim == "server" else client, signal.SIGKILL)
        await message.done()
        assert message.state == ("completed" if victim == "server" else "failed")
        lost = await store.get("a").wait_async(BOUND)
        assert (lost.failed, lost.final) == (True, True)
        # With its client the whole run around it ends. Should that have to kill the supervisors of
        # `a` before they could tell, its own record proves it, and that nobody is left this test.
        assert lost.remaining_count in ((0,) if victim == "server" else (0, None))
        assert store.get("b").status().state == "running", "it has not noticed"
        await anyio.to_thread.run_sync(go.write_text, "go on")
        await chat.rest()
        # The conversation is resumed by another process, with another server: its jobs are its own.
        await says(chat, "[[fetch]]")
        taken, other_one = rig.told("fetch")[-2:]
        assert (taken["result"]["answer"], taken["yours"], taken["failed"]) == ("held", True, False)
        assert (other_one["job"], other_one["failed"]) == (store.get("a").id, True)
    for name in ("a", "b"):
        job = store.get(name)
        assert [type(event) for event in job.follow_blocking(timeout=BOUND)].count(Ended) == 1
        assert job.status().taken == (1,)


async def test_an_agent_that_an_agent_asked_may_ask_a_third_and_that_one_nobody(rig):
    """Codex gives its servers a short environment: the depth is found above them."""
    need("codex")
    need("claude")
    play(
        rig,
        first=[
            mcp("ask_agent", agent="claude", prompt="[[second]]", **APPROVED["claude"]),
            {"text": "first"},
        ],
        second=[
            mcp("ask_agent", agent="codex", prompt="[[third]]", **APPROVED["codex"]),
            {"text": "second"},
        ],
        third=[
            mcp("ask_agent", agent="claude", prompt="[[hi]]", **APPROVED["claude"]),
            {"text": "third"},
        ],
    )
    async with open_host(state=rig.state) as host:
        await says(await asked(host, rig, "codex"), "[[first]]")
    assert rig.told("first")[0]["result"]["answer"] == "second"
    assert rig.told("second")[0]["result"]["answer"] == "third"
    assert "you are 2 deep already" in rig.told("third")[0]["text"]
    assert len(jobs.open_jobs(rig.state).list()) == 2
