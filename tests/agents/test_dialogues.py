"""The agents' protocols line by line, without any process: what comes in, what is said, what goes out."""

from __future__ import annotations

import json

import pytest

from lastout.agents.acp_dialogue import AcpDialogue
from lastout.agents.claude_dialogue import ClaudeDialogue, message_uuid
from lastout.agents.codex_dialogue import CodexDialogue
from lastout.agents.dialogue import Options, Start
from lastout.agents.events import (
    Accepted,
    Background,
    CommandEnded,
    CommandStarted,
    Noise,
    Question,
    QuestionClosed,
    Ready,
    Rejected,
    Settled,
    StartRefused,
    Text,
    TurnEnded,
)

START = Start(cwd="/src")


def hear(dialogue, message):
    return dialogue.receive(json.dumps(message).encode())


def sent(dialogue):
    messages = [json.loads(line) for line in dialogue.outgoing]
    dialogue.outgoing.clear()
    return messages


class TestCodex:
    def opened(self, resume=None):
        dialogue = CodexDialogue(Start(cwd="/src", resume=resume))
        dialogue.open()
        hear(dialogue, {"id": 1, "result": {"userAgent": "x/0.171.0 (Linux)"}})
        sent(dialogue)
        return dialogue

    def in_turn(self):
        dialogue = self.opened()
        hear(dialogue, {"id": 2, "result": {"thread": {"id": "t"}}})
        dialogue.send("m1", "hello")
        hear(dialogue, {"id": 3, "result": {"turn": {"id": "turn1"}}})
        sent(dialogue)
        return dialogue

    def ended(self, dialogue, turn="turn1", status="completed"):
        told = {"threadId": "t", "turn": {"id": turn, "status": status, "error": None}}
        return hear(dialogue, {"method": "turn/completed", "params": told})

    def test_a_new_thread_is_ready_with_its_name_and_version(self):
        dialogue = self.opened()
        (ready,) = hear(dialogue, {"id": 2, "result": {"thread": {"id": "t"}, "model": "m"}})
        assert ready == Ready(conversation="t", resumed=False, model="m", version="0.171.0")

    @pytest.mark.parametrize(
        ("message", "why"),
        [
            ("thread t already has an active writer", "locked"),
            ("no rollout found for thread id t", "unknown"),
            ("thread not found: t", "unknown"),
            ("something else with the same code", "failed"),
        ],
    )
    def test_the_refusal_of_a_resume_is_told_by_its_words_not_by_its_code(self, message, why):
        dialogue = self.opened(resume="t")
        (refused,) = hear(dialogue, {"id": 2, "error": {"code": -32600, "message": message}})
        assert refused == StartRefused(why=why, message=message)
        dialogue.reopen()
        assert [one["method"] for one in sent(dialogue)] == ["thread/resume"]

    def test_the_same_words_at_a_new_thread_are_no_lock_to_wait_for(self):
        dialogue = self.opened()
        error = {"code": -32600, "message": "x already has an active writer"}
        (refused,) = hear(dialogue, {"id": 2, "error": error})
        assert refused.why == "failed"

    def test_a_turn(self):
        dialogue = self.in_turn()
        assert dialogue.busy
        command = {
            "type": "commandExecution", "id": "c1", "command": "x", "cwd": "/src",
            "status": "failed", "exitCode": 7, "durationMs": 3, "aggregatedOutput": "out",
        }  # fmt: skip
        params = {"threadId": "t", "turnId": "turn1", "item": command}
        assert hear(dialogue, {"method": "item/started", "params": params}) == [
            CommandStarted(item="c1", command="x", cwd="/src")
        ]
        assert hear(dialogue, {"method": "item/completed", "params": params}) == [
            CommandEnded(item="c1", status="failed", exit_code=7, duration_ms=3, output="out")
        ]
        delta = {"threadId": "t", "itemId": "a", "delta": "hi"}
        assert hear(dialogue, {"method": "item/agentMessage/delta", "params": delta}) == [
            Text(text="hi", item="a")
        ]
        assert self.ended(dialogue)[0] == TurnEnded(message="m1", status="completed", turn="turn1")
        assert not dialogue.busy

    def test_a_command_that_outlives_its_turn_is_a_background_task_until_it_completes(self):
        dialogue = self.in_turn()
        item = {"type": "commandExecution", "id": "c1", "command": "x", "status": "inProgress"}
        params = {"threadId": "t", "turnId": "turn1", "item": item}
        hear(dialogue, {"method": "item/started", "params": params})
        assert Background(tasks=("c1",)) in self.ended(dialogue)
        after = hear(dialogue, {"method": "item/completed", "params": params})
        assert Background(tasks=()) in after

    def test_a_turn_of_its_own_making_is_work_and_answers_nobody(self):
        dialogue = self.in_turn()
        self.ended(dialogue)
        params = {"threadId": "t", "turn": {"id": "own"}}
        assert hear(dialogue, {"method": "turn/started", "params": params}) == [
            Background(tasks=("own",))
        ]
        assert self.ended(dialogue, turn="own") == [
            TurnEnded(message=None, status="completed", turn="own"),
            Background(tasks=()),
        ]

    def test_another_threads_news_are_not_ours(self):
        dialogue = self.in_turn()
        delta = {"threadId": "other", "itemId": "a", "delta": "hi"}
        assert hear(dialogue, {"method": "item/agentMessage/delta", "params": delta}) == []

    def test_an_interrupt_before_the_turn_has_a_name_is_sent_when_it_has(self):
        dialogue = self.opened()
        hear(dialogue, {"id": 2, "result": {"thread": {"id": "t"}}})
        dialogue.send("m1", "hello")
        number = dialogue.interrupt()
        assert [one["method"] for one in sent(dialogue)] == ["turn/start"]
        assert hear(dialogue, {"id": 3, "result": {"turn": {"id": "turn1"}}}) == [
            Accepted(message="m1", turn="turn1")
        ]
        (interrupt,) = sent(dialogue)
        assert interrupt["params"] == {"threadId": "t", "turnId": "turn1"}
        assert hear(dialogue, {"id": 4, "result": {}}) == [Settled(request=number, result={})]

    def test_a_message_that_is_refused_did_not_enter(self):
        dialogue = self.opened()
        hear(dialogue, {"id": 2, "result": {"thread": {"id": "t"}}})
        dialogue.send("m1", "hello")
        error = {"code": -32600, "message": "thread not found"}
        assert hear(dialogue, {"id": 3, "error": error}) == [
            Rejected(message="m1", reason="thread not found")
        ]
        assert not dialogue.busy

    def test_a_question_that_codex_takes_back_is_closed(self):
        dialogue = self.in_turn()
        params = {"threadId": "t", "turnId": "turn1", "itemId": "c", "command": "rm x"}
        method = "item/commandExecution/requestApproval"
        (question,) = hear(dialogue, {"id": 9, "method": method, "params": params})
        assert isinstance(question, Question)
        resolved = {"threadId": "t", "requestId": 9}
        assert hear(dialogue, {"method": "serverRequest/resolved", "params": resolved}) == [
            QuestionClosed(id="9")
        ]
        with pytest.raises(KeyError):
            dialogue.answer("9", "accept", {})

    def test_a_request_that_no_person_can_answer_is_refused_at_once(self):
        dialogue = self.in_turn()
        assert hear(dialogue, {"id": 9, "method": "attestation/generate", "params": {}}) == []
        (refusal,) = sent(dialogue)
        assert refusal["error"]["code"] == -32601

    def test_an_answer_to_nothing_is_noise(self):
        (noise,) = hear(self.in_turn(), {"id": 99, "result": {}})
        assert isinstance(noise, Noise)


class TestClaude:
    def ready(self, **options):
        start = Start(cwd="/src", options=Options(**options))
        dialogue = ClaudeDialogue(start, "s")
        dialogue.open()
        (request,) = sent(dialogue)
        response = {"subtype": "success", "request_id": request["request_id"], "response": {}}
        (ready,) = hear(dialogue, {"type": "control_response", "response": response})
        assert ready == Ready(conversation="s", resumed=False, model=options.get("model"))
        return dialogue

    def taken_up(self, dialogue, message):
        uuid = message_uuid(message)
        return hear(
            dialogue, {"type": "command_lifecycle", "command_uuid": uuid, "state": "started"}
        )

    def result(self, dialogue, **fields):
        return hear(dialogue, {"type": "result", "subtype": "success", "is_error": False, **fields})

    def test_a_message_has_its_own_uuid_whatever_the_callers_name_for_it(self):
        given = "3b1adec3-1efd-5296-9d1d-36000c07d42c"
        assert message_uuid(given) == given
        assert message_uuid("m1") == message_uuid("m1") != message_uuid("m2")

    def test_a_turn(self):
        dialogue = self.ready()
        dialogue.send("m1", "hello")
        (message,) = sent(dialogue)
        assert (message["uuid"], message["session_id"]) == (message_uuid("m1"), "s")
        uuid = message_uuid("m1")
        assert self.taken_up(dialogue, "m1") == [Accepted(message="m1", turn=uuid)]
        use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "x"}}
        assert hear(dialogue, {"type": "assistant", "message": {"content": [use]}}) == [
            CommandStarted(item="c1", command="x")
        ]
        back = {"type": "tool_result", "tool_use_id": "c1", "content": "out", "is_error": True}
        assert hear(dialogue, {"type": "user", "message": {"content": [back]}}) == [
            CommandEnded(item="c1", status="failed", output="out")
        ]
        assert self.result(dialogue) == [TurnEnded(message="m1", status="completed")]

    def test_text_that_was_streamed_is_not_said_twice(self):
        dialogue = self.ready()
        event = {"delta": {"type": "text_delta", "text": "hi"}}
        assert hear(dialogue, {"type": "stream_event", "event": event}) == [Text(text="hi")]
        whole = {"content": [{"type": "text", "text": "hi"}]}
        assert hear(dialogue, {"type": "assistant", "message": whole}) == []
        assert hear(dialogue, {"type": "assistant", "message": whole}) == [Text(text="hi")]

    def test_a_result_before_our_message_was_taken_up_is_of_another_turn(self):
        dialogue = self.ready()
        dialogue.send("m1", "hello")
        assert self.result(dialogue) == [TurnEnded(message=None, status="completed")]
        assert dialogue.busy
        self.taken_up(dialogue, "m1")
        assert self.result(dialogue) == [TurnEnded(message="m1", status="completed")]

    def test_an_interrupted_turn_is_not_a_failed_one(self):
        dialogue = self.ready()
        dialogue.send("m1", "hello")
        self.taken_up(dialogue, "m1")
        dialogue.interrupt()
        (ended,) = self.result(dialogue, subtype="error_during_execution", is_error=True)
        assert ended == TurnEnded(message="m1", status="interrupted")

    def test_a_failed_turn_says_why(self):
        dialogue = self.ready()
        dialogue.send("m1", "hello")
        self.taken_up(dialogue, "m1")
        (ended,) = self.result(dialogue, is_error=True, result="API Error: 500")
        assert (ended.status, ended.error) == ("failed", "API Error: 500")

    def test_options_that_change_are_asked_for_and_settle_with_the_last(self):
        dialogue = self.ready(model="a")
        number = dialogue.configure(Options(model="b", approval="plan"))
        first, second = sent(dialogue)
        assert first["request"] == {"subtype": "set_model", "model": "b"}
        assert second["request"] == {"subtype": "set_permission_mode", "mode": "plan"}
        settled = []
        for request in (first, second):
            response = {"subtype": "success", "request_id": request["request_id"]}
            settled += hear(dialogue, {"type": "control_response", "response": response})
        assert settled == [Settled(request=number)]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("allow", {"behavior": "allow", "updatedInput": {"command": "x"}}),
            ("deny", {"behavior": "deny", "message": "no", "interrupt": False}),
            ("cancel", {"behavior": "deny", "message": "no", "interrupt": True}),
        ],
    )
    def test_a_permission(self, choice, expected):
        dialogue = self.ready()
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "x"}}
        asked = {"type": "control_request", "request_id": "q", "request": request}
        (question,) = hear(dialogue, asked)
        assert question.prompt == "Bash: x"
        dialogue.answer("q", choice, {"reason": "no"})
        (answer,) = sent(dialogue)
        assert answer["response"]["response"] == expected

    def test_its_farewell_is_an_interrupt_because_stdins_end_ends_no_turn(self):
        dialogue = self.ready()
        dialogue.send("m1", "hello")
        sent(dialogue)
        dialogue.farewell()
        (request,) = sent(dialogue)
        assert request["request"]["subtype"] == "interrupt"

    def test_what_it_asks_and_we_do_not_offer_is_refused(self):
        dialogue = self.ready()
        asked = {
            "type": "control_request",
            "request_id": "q",
            "request": {"subtype": "mcp_message"},
        }
        assert hear(dialogue, asked) == []
        (answer,) = sent(dialogue)
        assert answer["response"]["subtype"] == "error"


class TestAcp:
    def opened(self, can, resume=None, **session):
        dialogue = AcpDialogue(Start(cwd="/src", resume=resume))
        dialogue.open()
        assert sent(dialogue)[0]["jsonrpc"] == "2.0"
        capabilities = {"agentCapabilities": can, "agentInfo": {"name": "a", "version": "1.2"}}
        events = hear(dialogue, {"jsonrpc": "2.0", "id": 1, "result": capabilities})
        if events:
            return dialogue, events
        (request,) = sent(dialogue)
        return dialogue, request

    @pytest.mark.parametrize(
        ("can", "method"),
        [
            ({"sessionCapabilities": {"resume": {}}, "loadSession": True}, "session/resume"),
            ({"loadSession": True}, "session/load"),
        ],
    )
    def test_it_resumes_in_the_way_that_the_agent_offers(self, can, method):
        _, request = self.opened(can, resume="s")
        assert (request["method"], request["params"]["sessionId"]) == (method, "s")

    def test_an_agent_that_cannot_resume_is_not_started_anew_in_secret(self):
        _, (refused,) = self.opened({}, resume="s")
        assert refused.why == "cannot-resume"

    def test_the_history_that_a_load_plays_back_is_no_news(self):
        dialogue, _ = self.opened({"loadSession": True}, resume="s")
        old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
        params = {"sessionId": "s", "update": old}
        assert hear(dialogue, {"method": "session/update", "params": params}) == []
        (ready,) = hear(dialogue, {"id": 2, "result": {}})
        assert ready.resumed
        (text,) = hear(dialogue, {"method": "session/update", "params": params})
        assert text == Text(text="old")

    @pytest.mark.parametrize(
        ("reason", "status"),
        [("end_turn", "completed"), ("cancelled", "interrupted"), ("refusal", "failed")],
    )
    def test_a_turn_ends_with_its_prompts_answer(self, reason, status):
        dialogue, _ = self.opened({})
        hear(dialogue, {"id": 2, "result": {"sessionId": "s"}})
        dialogue.send("m1", "hello")
        accepted, ended = hear(dialogue, {"id": 3, "result": {"stopReason": reason}})
        assert accepted == Accepted(message="m1")
        assert (ended.message, ended.status) == ("m1", status)

    def test_a_call_ends_once_however_many_updates_come(self):
        dialogue, _ = self.opened({})
        hear(dialogue, {"id": 2, "result": {"sessionId": "s"}})

        def update(kind, **fields):
            told = {"sessionUpdate": kind, "toolCallId": "c", **fields}
            params = {"sessionId": "s", "update": told}
            return hear(dialogue, {"method": "session/update", "params": params})

        assert update("tool_call", title="Run x", rawInput={"command": "x"}) == [
            CommandStarted(item="c", command="x")
        ]
        assert update("tool_call_update", status="in_progress") == []
        assert update("tool_call_update", status="failed") == [
            CommandEnded(item="c", status="failed")
        ]
        assert update("tool_call_update", status="completed") == []

    def test_a_cancel_answers_what_waits_for_permission(self):
        dialogue, _ = self.opened({})
        hear(dialogue, {"id": 2, "result": {"sessionId": "s"}})
        dialogue.send("m1", "hello")
        option = {"optionId": "o", "name": "Allow", "kind": "allow_once"}
        params = {"sessionId": "s", "toolCall": {"title": "x"}, "options": [option]}
        hear(dialogue, {"id": 7, "method": "session/request_permission", "params": params})
        sent(dialogue)
        dialogue.interrupt()
        cancel, answer = sent(dialogue)
        assert cancel["method"] == "session/cancel"
        assert (answer["id"], answer["result"]) == (7, {"outcome": {"outcome": "cancelled"}})
