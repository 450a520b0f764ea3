"""Codex prints the schema of its protocol: what we send fits it, and what we use has not changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from codex_schema import extract
from real_agents import BIN, need

from lastout.agents.codex_dialogue import CodexDialogue
from lastout.agents.dialogue import Options, Start
from lastout.agents.install import native_beside

PINNED = json.loads((Path(__file__).parent / "codex_schema.json").read_text())


def sent(dialogue):
    messages = [json.loads(line) for line in dialogue.outgoing]
    dialogue.outgoing.clear()
    return messages


def everything_that_we_send():
    """Each request that the dialogue can make, with every option given."""
    options = Options(model="m", effort="high", approval="never", sandbox="read-only")
    for resume in (None, "t1"):
        dialogue = CodexDialogue(Start(cwd="/src", options=options, resume=resume))
        dialogue.open()
        yield from sent(dialogue)
        answer(dialogue, 1, {"userAgent": "x/0.171.0 (linux)"})
        yield from sent(dialogue)
        answer(dialogue, 2, {"thread": {"id": "t1"}})
        dialogue.send("m1", "hello")
        answer(dialogue, 3, {"turn": {"id": "turn1"}})
        dialogue.interrupt()
        dialogue.rewind("turn1")
        dialogue.goal("win")
        dialogue.goal(None)
        dialogue.stop_task("all")
        started = {"type": "commandExecution", "id": "c1", "command": "x", "processId": "7"}
        told = {"method": "item/started", "params": {"threadId": "t1", "item": started}}
        dialogue.receive(json.dumps(told).encode())
        dialogue.stop_task("c1")
        yield from sent(dialogue)


def answer(dialogue, number, result):
    dialogue.receive(json.dumps({"id": number, "result": result}).encode())


def test_what_we_send_fits_the_pinned_schema():
    seen = set()
    for message in everything_that_we_send():
        if "id" not in message:
            assert message == {"method": "initialized"}
            continue
        schema = PINNED["requests"][message["method"]]
        given = set(message["params"])
        assert given <= set(schema["fields"]), message["method"]
        assert given >= set(schema["required"]), message["method"]
        seen.add(message["method"])
    assert seen == set(PINNED["requests"])


def test_the_installed_version_still_has_the_protocol_that_is_pinned():
    need("codex")
    codex = native_beside(str(BIN / "codex"), "@openai/codex", "codex")
    assert codex is not None
    assert extract(codex) == PINNED


@pytest.mark.parametrize("kind", ["told", "asked"])
def test_the_pinned_schema_has_all_that_we_listen_to(kind):
    assert all(entry["fields"] for entry in PINNED[kind].values())
    assert len(PINNED[kind]) == {"told": 10, "asked": 7}[kind]
