"""What is written down of messages: enough after any crash, and nothing breaks when it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lastout import identity
from lastout.agents.dialogue import Options
from lastout.host import StillRunning
from lastout.host.ledger import Kept, Ledger, LedgerFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path)
    yield made
    made.close()


@pytest.fixture
def dead():
    """The identity of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = identity.take(process.pid)
    process.communicate(b"\n")
    return found


def test_a_conversation_is_kept_with_its_options(ledger):
    kept = Kept("k", "codex", "/src", Options(model="m"), native="n", opened="o", rewind_to="r")
    ledger.keep(kept)
    assert ledger.conversation("k") == kept
    assert ledger.conversation("other") is None
    assert ledger.conversations() == [kept]


@pytest.mark.parametrize("state", ["queued", "delivering", "delivered", "completed", "failed"])
def test_only_what_was_returned_is_taken_again(ledger, dead, state):
    ledger.take("k", "m", "text", dead)
    ledger.move("k", "m", state, answer="so far")
    again, fresh = ledger.take("k", "m", "text", dead)
    assert (again.state, again.answer, fresh) == (state, "so far", False)
    ledger.move("k", "m", "returned", reason="why")
    again, fresh = ledger.take("k", "m", "text", dead)
    assert (again.state, again.reason, fresh) == ("queued", None, True)


def test_a_newer_versions_file_is_left_alone(ledger, tmp_path):
    ledger._execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="newer version of lastout"):
        Ledger(tmp_path)


@pytest.mark.parametrize("has_it", [True, False])
async def test_the_transcript_decides_what_became_of_a_message_at_the_crash(stage, dead, has_it):
    """As after a SIGKILL between our writing the message to the agent and its first answer."""
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await (await chat.send("hello", id="m1")).done()
        thread = chat.kept.native
    identity_of_it = "m1" if has_it else "m2"
    ledger = Ledger(stage.state)
    if not has_it:
        ledger.take("k", "m2", "hello again", dead)
    ledger.move("k", identity_of_it, "delivering")
    host_of_it = json.dumps(dead.to_json())
    ledger._execute("UPDATE messages SET host = ?", (host_of_it,))
    # The name had not become the conversation's: that comes with the first acceptance.
    ledger._execute("UPDATE conversations SET native = NULL")
    ledger.close()
    async with stage.host(agents={"scripted": stage.agent()}) as host:
        chat = await host.open("k")
        if has_it:
            message = await chat.send("hello", id="m1")
            assert (message.settled, message.state) == (True, "interrupted")
            assert chat.kept.native == thread
            return
        kept = host._ledger.message("k", "m2")
        assert kept.state == "returned"
        assert "not in its transcript: sending it again is safe" in kept.reason


async def test_a_message_in_the_hands_of_another_live_host_is_not_taken_twice(stage):
    async with stage.host() as one, stage.host() as two:
        first, second = await one.open("k", stage.agent()), await two.open("k", stage.agent())
        message = await first.send("/sleep 60", id="m1")
        with pytest.raises(StillRunning, match="only that host can say"):
            await second.send("/sleep 60", id="m1")
        assert not message.settled


async def test_on_a_full_disk_nothing_is_delivered_that_is_not_written_down(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await (await chat.send("hello", id="m1")).done()
        database = host._ledger._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerFailed, match="full"):
            for number in range(1000):
                await chat.send("x" * 5000, id=f"f{number}")
        database.execute("PRAGMA max_page_count = 100000")
        assert (await (await chat.send("after")).done()).state == "completed"


async def test_a_message_whose_delivery_cannot_be_written_down_is_returned(stage, monkeypatch):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await (await chat.send("hello")).done()
        move = host._ledger.move

        def fails(key, message, state, **fields):
            if state == "delivering":
                raise LedgerFailed("database or disk is full")
            move(key, message, state, **fields)

        monkeypatch.setattr(host._ledger, "move", fails)
        message = await (await chat.send("secret")).done()
        assert (message.state, "is the disk full?" in message.reason) == ("returned", True)
        monkeypatch.undo()
        assert (await (await chat.send("after")).done()).state == "completed"
        assert stage.said(chat.kept.native) == ["hello", "after"]


async def test_a_defect_costs_one_conversation_and_not_the_host(stage, monkeypatch, caplog):
    async with stage.host() as host:
        broken, good = stage.agent(), stage.agent()
        monkeypatch.setattr(broken, "plan", lambda *arguments: 1 / 0)
        chat, other = await host.open("broken", broken), await host.open("good", good)
        message = await (await chat.send("hello")).done()
        assert (message.state, "ZeroDivisionError" in message.reason) == ("returned", True)
        assert (await (await other.send("hello")).done()).state == "completed"
    assert "ZeroDivisionError" in caplog.text
