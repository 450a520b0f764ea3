"""Who may not write is told who may; nothing is changed beside an agent that may be running."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from lastout import identity, sole_writer
from lastout.agents.events import StartRefused
from lastout.graces import DEFAULT
from lastout.host import OtherAgent, StillRunning
from lastout.host.events import Moved
from lastout.identity import ProcessIdentity
from lastout.leases import model
from lastout.verdict import EXITED, Verdict

pytestmark = pytest.mark.anyio


def make_unproven(stage, key: str):
    """A holder of whom nobody can say from here whether he lives: of another pid namespace."""
    grant = sole_writer.acquire(key, state=stage.state)
    store = sole_writer.open_store(stage.state)
    boot = identity.boot_id()
    front, keeper, root = (ProcessIdentity(pid, 5, 0, boot, 1) for pid in (70, 71, 72))
    epoch = grant.epoch
    del grant  # dropped, as by an owner that has forgotten it
    store.change(
        key,
        lambda found, at: model.commit(
            found.lease, epoch, at, front=front, keeper=keeper, root=root, max_stop_ms=100
        ),
    )
    return store, epoch


async def test_an_earlier_agent_that_could_not_be_stopped_is_tried_again_with_each_message(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        store, epoch = make_unproven(stage, "k")
        first = await (await chat.send("hello", id="m1")).done()
        assert first.state == "returned"
        assert "could not be stopped" in first.reason
        assert "Asking again tries once more" in first.reason
        assert chat.state == "unproven"
        for change in (
            lambda: chat.configure(model="large"),
            lambda: chat.answer("1", "allow"),
            lambda: chat.goal("win"),
            lambda: chat.rewind("m1"),
            lambda: chat.stop_task("all"),
        ):
            with pytest.raises(StillRunning, match="may still be running here"):
                await change()
        assert (await (await chat.send("hello", id="m1")).done()).state == "returned"
        gone = Verdict(EXITED, "other-boot", True)
        store.change("k", lambda found, at: model.settle(found.lease, epoch, gone, at))
        assert (await (await chat.send("hello", id="m1")).done()).state == "completed"
        await chat.configure(model="large")


async def test_of_two_hosts_one_wins_and_the_other_is_told_who_holds_it(stage):
    async with stage.host() as one, stage.host() as two:
        first = await one.open("k", stage.agent())
        second = await two.open("k", stage.agent())
        sent = [await first.send("from one"), await second.send("from two")]
        for message in sent:
            await message.done()
        states = sorted(message.state for message in sent)
        assert states == ["completed", "returned"]
        (refused,) = [message for message in sent if message.state == "returned"]
        assert "is held by run" in refused.reason
        assert f"owned by pid {os.getpid()}" in refused.reason
        winner, loser = (first, second) if sent[0].state == "completed" else (second, first)
        with pytest.raises(StillRunning, match="running elsewhere"):
            await loser.configure(model="large")
        await winner.rest()
        after = await (await loser.send("now me")).done()
        assert after.state == "completed"
        assert stage.said(loser.kept.native)[-1] == "now me"


async def test_two_host_processes_reach_for_one_conversation_at_once(stage, host_process):
    hosts = [host_process(), host_process()]
    stage.home = stage.state / "scripted"
    for host in hosts:
        host.ask("open", key="k", agent="scripted")
    for number, host in enumerate(hosts):
        host.tell("send", key="k", text=f"from {number}", id=f"m{number}", wait=True, re="sent")
    answers = [host.until(lambda line: line.get("re") == "sent") for host in hosts]
    assert sorted(answer["state"] for answer in answers) == ["completed", "returned"]
    (refused,) = [answer for answer in answers if answer["state"] == "returned"]
    assert "is held by run" in refused["reason"]


async def test_a_conversation_stays_with_its_kind_of_agent(stage):
    from lastout.agents import Command

    async with stage.host() as host:
        await (await (await host.open("k", stage.agent())).send("hello")).done()
    async with stage.host() as host:
        with pytest.raises(OtherAgent, match="is a conversation with scripted"):
            await host.open("k", Command(["cat"]))
        with pytest.raises(ValueError, match="which agent"):
            await host.open("new")


class TestTheAgentsOwnLock:
    """A resume waits out the agent's lock: 100 ms, 400 ms, 1 s, for that error alone."""

    @pytest.fixture
    def holder(self, stage):
        """Starts a process that holds a thread's lock as another scripted agent would."""
        started = []
        code = (
            "import fcntl, os, sys, time\n"
            "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
            "fcntl.flock(fd, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "sys.stdin.read()\n"
        )

        def start(thread):
            path = stage.home / "thread-writer-locks" / f"{thread}.lock"
            path.parent.mkdir(parents=True, exist_ok=True)
            process = subprocess.Popen(
                [sys.executable, "-c", code, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert process.stdout.readline() == b"held\n"
            started.append(process)
            return process

        yield start
        for process in started:
            process.stdin.close()
            process.stdout.close()
            process.wait()

    async def test_is_waited_out(self, stage, holder):
        async with stage.host() as host:
            chat = await host.open("k", stage.agent("--lock"))
            await (await chat.send("hello")).done()
            await chat.rest()
            process = holder(chat.kept.native)
            with chat.events() as events:
                message = await chat.send("and now")
                async for event in events:
                    if isinstance(event, StartRefused):
                        break
            process.stdin.close()
            process.wait()
            assert (await message.done()).state == "completed"

    async def test_is_named_when_it_stays_and_nothing_is_latched(self, stage, holder):
        async with stage.host() as host:
            chat = await host.open("k", stage.agent("--lock"))
            await (await chat.send("hello")).done()
            await chat.rest()
            process = holder(chat.kept.native)
            began = time.monotonic()
            message = await (await chat.send("and now", id="m2")).done()
            assert message.state == "returned"
            assert f"(pid {process.pid}, " in message.reason
            assert "close it there, and send again" in message.reason
            assert time.monotonic() - began > 1.5
            process.stdin.close()
            process.wait()
            assert (await (await chat.send("and now", id="m2")).done()).state == "completed"

    async def test_other_errors_of_the_same_code_are_not_waited_for(self, stage):
        async with stage.host() as host:
            chat = await host.open("k", stage.agent("--lock"))
            await (await chat.send("hello")).done()
            await chat.rest()
            for path in stage.home.glob("sessions/*/*/*/*"):
                path.unlink()
            refusals = []
            with chat.events() as events:
                message = await chat.send("and now")
                async for event in events:
                    refusals += [event] if isinstance(event, StartRefused) else []
                    if isinstance(event, Moved) and event.state == "returned":
                        break
            assert "does not know this conversation" in message.reason
            assert [refusal.why for refusal in refusals] == ["unknown"], "asked once"


def test_the_default_ladder_is_what_these_bounds_are_made_for():
    assert DEFAULT.max_stop == 5.5
