"""What agents report of their commands, from transcripts of real agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lastout.evidence import journal
from lastout.evidence.commands import OUTPUT_KEPT, CommandLog, reports
from lastout.evidence.events import CommandRan, TurnEnded

TRANSCRIPTS = Path(__file__).parent / "transcripts"
AGENTS = sorted(path.name for path in TRANSCRIPTS.iterdir() if path.is_dir())
CODEX = ["app-server", "codex-acp", "exec"]
CLAUDE = ["claude", "claude-acp"]


class Lines:
    """Keeps lines instead of writing them."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def append(self, event_type: type[Any], **fields: Any) -> Any:
        line = event_type(
            run="r", source="owner", seq=len(self.kept) + 1, boottime_ns=0, time="", **fields
        )
        self.kept.append(line)
        return line

    @property
    def commands(self) -> list[CommandRan]:
        return [line for line in self.kept if isinstance(line, CommandRan)]

    @property
    def turns(self) -> list[TurnEnded]:
        return [line for line in self.kept if isinstance(line, TurnEnded)]


def messages(agent: str, case: str) -> list[dict[str, Any]]:
    text = (TRANSCRIPTS / agent / f"{case}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def told(agent: str, case: str, *, times: int = 1) -> Lines:
    lines = Lines()
    log = CommandLog(lines)
    for message in messages(agent, case):
        for _ in range(times):
            log.feed(message)
    log.close()
    return lines


@pytest.mark.parametrize("agent", AGENTS)
def test_a_failed_command_has_its_code_and_does_not_fail_the_turn(agent: str) -> None:
    lines = told(agent, "exit1")
    (command,) = lines.commands
    assert command.exit_code == 1
    assert command.exit_code_from == ("text" if agent in CLAUDE else "field")
    assert "echo some output; exit 1" in (command.command or "")
    assert "some output" in (command.output or "")
    assert command.phase == "completed"
    (turn,) = lines.turns
    assert (turn.commands, turn.failed, turn.unfinished) == (1, 1, ())
    assert turn.status in ("completed", "success", "end_turn")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("case", ["exit124", "timeout", "self-kill", "out-kill"])
def test_no_cause_is_made_of_an_exit_code(agent: str, case: str) -> None:
    (command,) = told(agent, case).commands
    assert command.native_timeout is None
    assert command.detail in (None, {})
    # The same death is 137 for one agent and 1 for the other: kept as each reported it.
    killed = 1 if agent in CLAUDE else 137
    assert command.exit_code == (124 if case in ("exit124", "timeout") else killed)


@pytest.mark.parametrize("agent", CLAUDE)
def test_success_without_a_number_records_none(agent: str) -> None:
    (command,) = told(agent, "ok").commands
    assert command.exit_code is None
    assert command.exit_code_from is None


@pytest.mark.parametrize("agent", CODEX)
def test_success_with_a_number_records_it(agent: str) -> None:
    (command,) = told(agent, "ok").commands
    assert command.exit_code == 0


@pytest.mark.parametrize("agent", AGENTS)
def test_only_the_end_of_a_long_output_is_kept(agent: str) -> None:
    (command,) = told(agent, "long").commands
    assert command.output is not None
    assert command.output_chars is not None
    assert len(command.output) == OUTPUT_KEPT == 4000
    assert command.output_chars > 8000
    assert command.output.rstrip().endswith("\n2000")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("case", ["ok", "exit1", "parallel", "deadline"])
def test_duplicates_count_once(agent: str, case: str) -> None:
    once, thrice = told(agent, case), told(agent, case, times=3)
    assert [(c.item, c.phase, c.exit_code) for c in thrice.commands] == [
        (c.item, c.phase, c.exit_code) for c in once.commands
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_parallel_commands_are_told_apart(agent: str) -> None:
    lines = told(agent, "parallel")
    assert sorted(command.exit_code or 0 for command in lines.commands) == [3, 4]
    assert lines.turns[-1].commands == 2


@pytest.mark.parametrize("agent", ["app-server", "codex-acp", "claude"])
def test_completed_after_its_turn_is_said(agent: str) -> None:
    lines = told(agent, "deadline")
    first = lines.turns[0]
    assert len(first.unfinished) == 1
    (late,) = [command for command in lines.commands if command.phase == "completed"]
    assert late.after_turn
    assert late.exit_code == 5
    assert late.item == first.unfinished[0]


@pytest.mark.parametrize("agent", ["exec", "claude-acp"])
def test_started_without_completion_is_said(agent: str) -> None:
    """Both go on without the command and never report its end: no exit code may appear."""
    lines = told(agent, "deadline")
    assert len(lines.turns[0].unfinished) == 1
    last = lines.commands[-1]
    assert last.phase == "unfinished"
    assert (last.status, last.exit_code, last.output) == (None, None, None)


def test_an_interrupted_turn_leaves_its_command_unfinished() -> None:
    lines = told("app-server", "interrupt")
    assert lines.turns[0].status == "interrupted"
    assert lines.commands[-1].phase == "unfinished"


def test_claude_says_that_an_interrupted_command_was_rejected() -> None:
    (command,) = told("claude", "interrupt").commands
    assert command.detail == {"non_execution_kind": "user-rejected"}
    assert command.exit_code is None


def test_native_timeout_evidence_is_kept_as_supplied() -> None:
    moved, ended = told("claude", "deadline").commands
    assert moved.phase == "background"
    assert moved.native_timeout == {"timedOutAfterMs": 500}
    assert moved.exit_code is None
    assert ended.native_timeout is None


def test_a_notification_of_a_foreground_command_is_no_completion() -> None:
    """Claude announces the end of the second command before its result comes."""
    commands = told("claude", "deadline-wait").commands
    assert [(c.phase, c.status) for c in commands] == [
        ("background", "is_error false"),
        ("completed", "failed"),
        ("completed", "is_error false"),
    ]


def test_a_duration_is_kept_only_where_reported() -> None:
    assert told("app-server", "timeout").commands[0].duration_ms is not None
    assert told("exec", "timeout").commands[0].duration_ms is None
    assert told("claude", "timeout").commands[0].duration_ms is None


def test_snake_and_camel_case_say_the_same() -> None:
    snake = {"id": "a", "type": "command_execution", "command": "x", "status": "failed"}
    camel = {**snake, "type": "commandExecution"}
    snake |= {"exit_code": 7, "aggregated_output": "o"}
    camel |= {"exitCode": 7, "aggregatedOutput": "o"}
    for item in (snake, camel):
        (by_exec,) = reports({"type": "item.completed", "item": item})
        (by_server,) = reports(
            {"method": "item/completed", "params": {"item": item, "threadId": "t", "turnId": "u"}}
        )
        for report in (by_exec, by_server):
            assert (report.exit_code, report.output) == (7, "o")  # type: ignore[attr-defined]


def test_a_command_completed_without_a_start_is_recorded() -> None:
    lines = Lines()
    item = {"id": "a", "type": "command_execution", "command": "x", "status": "failed"}
    CommandLog(lines).feed({"type": "item.completed", "item": item})
    assert lines.commands[0].command == "x"


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": 3},
        {"type": "user", "message": {"content": "text"}},
        {"type": "assistant", "message": None},
        {"type": "item.completed", "item": {"type": "command_execution"}},
        {"method": "item/completed", "params": []},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "tool_call"}}},
        {"id": 1, "result": None},
        {"id": 1, "result": {"stopReason": 4}},
        {
            "type": "item.completed",
            "item": {"id": "a", "type": "command_execution", "exit_code": True},
        },
    ],
)
def test_malformed_messages_claim_nothing(message: dict[str, Any]) -> None:
    lines = Lines()
    CommandLog(lines).feed(message)
    assert lines.kept == []


def test_secrets_in_commands_and_outputs_are_masked() -> None:
    lines = Lines()
    item = {
        "id": "a",
        "type": "command_execution",
        "command": "curl -H 'Authorization: Bearer abcdef' https://user:hunter2@example.org",
        "aggregated_output": "key sk-abcdefghijklmnopqrstuvwx",
        "status": "completed",
        "exit_code": 0,
    }
    CommandLog(lines).feed({"type": "item.completed", "item": item})
    (command,) = lines.commands
    for secret in ("abcdef", "hunter2"):
        assert secret not in (command.command or "")
    assert command.output == "key ***"


def test_lines_go_into_the_record_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with journal.Journal(path, "r") as record:
        log = CommandLog(record)
        for message in messages("app-server", "exit1"):
            log.feed(message)
    events = journal.read(path).events
    assert [type(event) for event in events] == [CommandRan, TurnEnded]
    assert events[0].exit_code == 1  # type: ignore[attr-defined]


def test_many_items_do_not_fill_the_memory() -> None:
    lines = Lines()
    log = CommandLog(lines)
    for number in range(5000):
        item = {"id": f"i{number}", "type": "command_execution", "command": "x", "exit_code": 0}
        log.feed({"type": "item.completed", "item": item})
        lines.kept.clear()
    assert len(log._items) <= 4097
