"""An agent's turns as jobs: what is stopped before a result is told, and what the feed keeps."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from harness.agent_jobs import BOUND, AgentJobs, all_gone, of_kind
from harness.freezer import freezer
from lastout.identity import Alive, still_alive, wait_dead
from lastout.jobs import feed
from lastout.jobs.errors import JobEnded, NoSuchJob, NotQuestioned

MOST_MEMORY = 30 * 1024
"""KiB of private memory that a runner may have in an agent's turn."""


def escaped(agents: AgentJobs, first: str = "true") -> str:
    """A turn whose tool leaves a process behind, in a session of its own, with no parent."""
    return (
        f"/escape {first}; echo $$ >{agents.directory}/pid; echo up >{agents.up}; exec sleep 301\n"
        f"/run read up <{agents.up}\n/say done"
    )


def left_behind(agents: AgentJobs) -> int:
    """The pid of what such a tool left."""
    return int((agents.directory / "pid").read_text())


def private(pid: int) -> int:
    """KiB of memory that is this process's alone."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))


def test_a_turn_is_answered_and_the_job_has_ended_with_nobody_left(agents):
    result = agents.wait(job := agents.submit("hello"))
    assert (result.failed, result.final, result.why) == (False, True, "completion")
    assert (result.answer, result.status) == ("you said: hello ", "completed")
    assert (result.remaining_count, result.stopped) == (0, ())
    assert job.status().state == "ended"
    (run,) = result.runs
    lines = agents.lines(run)
    assert [line["remaining"] for line in lines if line["event"] == "tree-gone"] == [0]
    assert agents.transcript(result.conversation) == ["hello"]
    texts = of_kind(job.feed(), feed.Text)
    assert "".join(text.text for text in texts) == result.answer


def test_a_failed_command_stays_in_the_feed_and_does_not_fail_the_job(agents):
    job = agents.submit("/run echo out; exit 7\n/run true\n/say recovered")
    result = agents.wait(job)
    assert (result.failed, result.answer) == (False, "recovered ")
    assert (result.detail["commands"], result.detail["failed_commands"]) == (2, 1)
    ran = of_kind(job.feed(), feed.CommandRan)
    assert [(one.command, one.exit_code, one.phase) for one in ran] == [
        ("echo out; exit 7", 7, "completed"),
        ("true", 0, "completed"),
    ]
    assert ran[0].output == "out\n"
    lines = [one.text for one in of_kind(job.feed(), feed.Progress)]
    assert "runs: true" in lines, "the current line went on"


def test_what_a_tool_left_behind_is_stopped_and_named_before_the_result(agents):
    sibling = agents.submit("/run echo up >up; exec sleep 301", keep=60)
    agents.wait_up()
    job = agents.submit(escaped(agents), keep=60)
    result = agents.wait(job)
    assert not result.failed
    assert all_gone(result)
    assert left_behind(agents) in {one.pid for one in result.stopped}
    assert {one.name for one in result.stopped} <= {"sh", "setsid", "sleep"}
    assert (result.remaining_count, result.stopped_count) == (0, len(result.stopped))
    # It would miss what was stopped: the next message starts a fresh one.
    assert result.detail["agent_kept"] is False
    assert [line for line in agents.lines(result.runs[0]) if line["event"] == "others-stopped"]
    job.message("again", id="m1")
    second = agents.wait(job, 2)
    assert (second.answer, second.message) == ("you said: again ", "m1")
    assert (len(second.runs), second.runs == result.runs) == (1, False)
    assert agents.transcript(result.conversation)[1:] == ["again"]
    assert sibling.status().state == "running"


def test_a_kernel_lock_of_what_was_killed_is_named_and_its_file_stays(agents):
    path = agents.directory / "its.lock"
    holds = f"trap '' HUP INT TERM; exec 9>{path}; flock 9"
    result = agents.wait(agents.submit(escaped(agents, holds)))
    assert [(one.path, one.kind) for one in result.locks] == [(str(path), "FLOCK")]
    assert {one.pid for one in result.locks} <= {one.pid for one in result.stopped}
    assert path.exists()


def test_messages_are_turns_of_one_agent_and_each_is_delivered_once(agents):
    job = agents.submit("/run echo up >up\n/say one", keep=60)
    agents.wait_up()
    assert job.message("two", id="m1") == "m1"  # the first turn runs: for the next
    assert job.message("two", id="m1") == "m1"
    with pytest.raises(ValueError, match="another text"):
        job.message("three", id="m1")
    second = agents.wait(job)
    assert (second.turn, second.answer, second.message) == (2, "you said: two ", "m1")
    first = job.result(1)
    assert (first.answer, first.final, first.detail["agent_kept"]) == ("one ", False, True)
    assert first.runs == second.runs, "the same agent"
    assert job.status().state == "idle"
    runner = job.status().runner
    assert private(runner.pid) <= MOST_MEMORY
    assert job.message("two", id="m1") == "m1"
    job.message("three", id="m2")
    assert agents.wait(job, 3).answer == "you said: three "
    said = agents.transcript(second.conversation)
    assert said[1:] == ["two", "three"]
    assert [one.id for one in of_kind(job.feed(), feed.MessageTaken)] == ["m1", "m2"]


def test_an_idle_agent_is_ended_after_its_time_and_the_conversation_goes_on_in_another_job(agents):
    job = agents.submit("one", keep=0.2, name="first")
    end = agents.ended(job)
    assert (end.turn, end.failed, end.why, end.remaining_count) == (0, False, "completion", 0)
    with pytest.raises(JobEnded, match=f"--continue {job.id}"):
        job.message("two")
    more = agents.submit("two", agent="", continues="first", keep=60)
    result = agents.wait(more)
    assert (result.answer, result.conversation) == ("you said: two ", end.conversation)
    # Its agent lives: a second writer is kept away, and nothing of it is started.
    other = agents.wait(agents.submit("three", agent="", continues="first"))
    assert (other.failed, other.final, other.why) == (True, True, "not-started")
    assert "is held by run" in other.reason
    agents.ended_by_cancel(more)
    last = agents.submit("four", agent="", continues=more.id)
    assert agents.wait(last).answer == "you said: four "
    assert agents.transcript(end.conversation) == ["one", "two", "four"]


def test_a_conversation_has_one_key_however_it_is_named(agents):
    first = agents.wait(agents.submit("one"))
    named = agents.wait(job := agents.submit("two", conversation=first.conversation, keep=60))
    assert named.detail["key"] == first.detail["key"]
    other = agents.wait(agents.submit("three", conversation=first.conversation))
    assert (other.why, "is held by run" in other.reason) == ("not-started", True)
    agents.ended_by_cancel(job)
    assert agents.transcript(first.conversation) == ["one", "two"]


def test_what_cannot_be_continued_is_refused_before_anything_is_written(agents):
    job = agents.submit("one", keep=60)
    agents.wait(job)
    before = set(agents.store.ids())
    with pytest.raises(ValueError, match="has not ended"):
        agents.submit("two", agent="", continues=job.id)
    with pytest.raises(ValueError, match="conversation with scripted"):
        agents.ended_by_cancel(job)
        agents.submit("two", agent="codex", continues=job.id)
    with pytest.raises(NoSuchJob):
        agents.submit("two", agent="", continues="nobody")
    with pytest.raises(ValueError, match="no agent is named"):
        agents.submit("two", agent="nobody")
    with pytest.raises(ValueError, match="no such option: colour"):
        agents.submit("two", options={"colour": "blue"})
    assert set(agents.store.ids()) == before


def test_a_turn_that_takes_too_long_is_ended_with_all_that_it_started(agents):
    job = agents.submit(f"/run (setsid sleep 301 &); echo up >{agents.up}; sleep 301",
                        timeout=1.0, keep=60)  # fmt: skip
    result = agents.wait(job)
    assert (result.failed, result.why, result.status) == (True, "timeout", "interrupted")
    assert "after 1 s" in result.reason
    assert (result.remaining_count, result.final) == (0, False)
    assert result.stopped
    assert all_gone(result)
    (gone,) = [line for line in agents.lines(result.runs[0]) if line["event"] == "tree-gone"]
    assert gone["remaining"] == 0
    (ran,) = of_kind(job.feed(), feed.CommandRan)
    assert ran.command.startswith("(setsid")
    job.message("again")
    assert agents.wait(job, 2).answer == "you said: again "


def test_a_cancel_ends_everything_first_and_says_who_asked(agents):
    job = agents.submit(f"/escape exec sleep 301\n/run echo up >{agents.up}; sleep 301", keep=60)
    agents.wait_up()
    job.message("never", id="m1")
    agents.until(job, lambda event: isinstance(event, feed.MessageTaken))
    job.cancel(by="the test")
    result = agents.ended(job)
    assert (result.failed, result.final, result.why) == (True, True, "abort")
    assert (result.ended_by, result.status) == ("the test", "interrupted")
    assert (result.undelivered, result.remaining_count) == (("m1",), 0)
    assert result.stopped
    assert all_gone(result)


def test_a_cancel_while_the_agent_starts(agents):
    job = agents.submit("hello", agent="scripted:--slow 30", keep=60)
    agents.until(job, lambda event: isinstance(event, feed.Started))
    job.cancel(by="the test")
    result = agents.ended(job)
    assert (result.why, result.status, result.remaining_count) == ("abort", "returned", 0)
    (run,) = result.runs
    assert agents.lines(run)[-1]["event"] in ("tree-gone", "closed", "refused")


def test_a_cancel_without_grace_waits_for_nobody(agents):
    job = agents.submit(f"/stubborn echo up >{agents.up}; sleep 301", keep=60,
                        agent="scripted:--ignore interrupt,stdin,term")  # fmt: skip
    agents.wait_up()
    job.cancel(by="the test")
    agents.until(job, lambda event: job.status().why == "abort" or isinstance(event, feed.Ended))
    job.cancel(by="the test", grace=0)
    result = agents.ended(job)
    assert (result.why, result.remaining_count) == ("abort", 0)
    stops = [line for line in agents.lines(result.runs[0]) if line["event"].startswith("stop")]
    assert 0 in [line["term_grace_ms"] for line in stops], stops


def test_a_question_is_in_the_state_until_it_is_answered_through_the_job(agents):
    mark = agents.directory / "mark"
    job = agents.submit(f"/ask touch {mark}\n/say done", keep=60)
    asked = agents.until(job, lambda event: isinstance(event, feed.Questioned)).question
    assert job.status().questions == (asked,)
    assert str(mark) in asked.prompt
    with pytest.raises(NotQuestioned):
        job.answer("another", "allow")
    with pytest.raises(ValueError, match="none of the choices"):
        job.answer(asked.id, "perhaps")
    job.answer(asked.id, "allow", by="the test")
    result = agents.wait(job)
    assert (result.answer, mark.exists()) == ("done ", True)
    assert job.status().questions == ()
    (answered,) = of_kind(job.feed(), feed.Answered)
    assert (answered.question, answered.choice, answered.by) == (asked.id, "accept", "the test")
    with pytest.raises(NotQuestioned):
        job.answer(asked.id, "allow")


def test_a_question_that_nobody_answers_ends_with_its_turn(agents):
    job = agents.submit("/ask true", timeout=0.5)
    result = agents.wait(job)
    assert (result.why, job.status().questions) == ("timeout", ())


def test_the_agent_dies_in_its_turn(agents):
    job = agents.submit(escaped(agents).replace("/say done", "/exit 3"), keep=60)
    result = agents.wait(job)
    assert (result.failed, result.why, result.code) == (True, "completion", 3)
    assert "ended with status 3" in result.reason
    assert result.stopped_count >= 1
    assert all_gone(result)
    job.message("again")
    assert agents.wait(job, 2).answer == "you said: again "


@pytest.mark.parametrize("agent", ["scripted:--die oops", "acp:/nowhere/agent"])
def test_an_agent_that_cannot_be_had_fails_the_job(agents, agent):
    result = agents.wait(job := agents.submit("hello", agent=agent, keep=60))
    assert (result.failed, result.final, result.status) == (True, True, "returned")
    assert ("oops" if "die" in agent else "was not found") in result.reason
    assert job.status().state == "ended"


def test_an_agent_that_begins_to_work_unasked_is_ended(agents):
    job = agents.submit("/later 0.3 sleep 301", keep=60)
    first = agents.wait(job)
    assert first.detail["agent_kept"] is True
    notice = agents.until(
        job, lambda event: isinstance(event, feed.Notice) and "no message" in event.text
    )
    agents.until(
        job,
        lambda event: isinstance(event, feed.Notice) and event.detail is not None,
        after=notice.seq,
    )
    (gone,) = [line for line in agents.lines(first.runs[0]) if line["event"] == "tree-gone"]
    assert gone["remaining"] == 0
    job.message("again")
    assert agents.wait(job, 2).runs[-1] != first.runs[-1]


def test_directory_environment_and_umask_are_the_submitters(agents):
    before = os.umask(0o027)
    try:
        job = agents.submit(
            "/run echo $WORD; pwd; : >made",
            env={**os.environ, "WORD": "hello"},
            cwd=str(agents.directory),
        )
    finally:
        os.umask(before)
    agents.wait(job)
    (ran,) = of_kind(job.feed(), feed.CommandRan)
    assert ran.output == f"hello\n{agents.directory}\n"
    assert stat.S_IMODE((agents.directory / "made").stat().st_mode) == 0o640


def test_a_secret_is_not_in_the_feed(agents):
    job = agents.submit("/run echo password=hunter22; true --token=abcdef123456\n/say done")
    agents.wait(job)
    text = Path(job.directory, "feed.jsonl").read_text()
    assert "hunter22" not in text
    assert "abcdef123456" not in text


def test_the_runner_is_lost_in_the_middle_of_a_turn(agents):
    job = agents.submit(f"/escape exec sleep 301\n/run echo up >{agents.up}; sleep 301", keep=60)
    agents.wait_up()
    runner, run = job.status().runner, job.status().run
    os.kill(runner.pid, signal.SIGKILL)
    result = agents.ended(job)
    assert result.runs == (run,), "it was noted before it was started"
    assert (result.failed, result.why, result.remaining_count) == (True, "runner-lost", 0)
    assert still_alive(runner.identity) is Alive.NO
    more = agents.submit("again", agent="", continues=job.id)
    assert agents.wait(more).answer == "you said: again "
    assert agents.transcript(agents.wait(more).conversation)[1:] == ["again"]


def test_a_runner_that_is_told_to_end_ends_the_agent_first(agents):
    job = agents.submit(f"/escape exec sleep 301\n/run echo up >{agents.up}; sleep 301", keep=60)
    agents.wait_up()
    os.kill(job.status().runner.pid, signal.SIGTERM)
    result = agents.ended(job)
    assert (result.why, result.failed, result.remaining_count) == ("shutdown", True, 0)
    assert "TERM" in result.ended_by
    assert all_gone(result)


def test_an_agent_that_dies_while_it_idles_is_started_again_by_a_message(agents):
    job = agents.submit("one", keep=60)
    first = agents.wait(job)
    (started,) = [line for line in agents.lines(first.runs[0]) if line["event"] == "started"]
    os.kill(started["root"]["pid"], signal.SIGKILL)
    agents.until(job, lambda event: isinstance(event, feed.Notice) and event.detail is not None)
    assert job.status().state == "idle"
    job.message("two")
    second = agents.wait(job, 2)
    assert (second.answer, second.runs == first.runs) == ("you said: two ", False)


@pytest.mark.root
def test_who_cannot_be_stopped_fails_the_job_and_is_named(agents):
    with freezer() as cold:
        job = agents.submit(
            f"/escape echo $$ >{agents.directory}/pid; echo up >{agents.up}; exec sleep 301\n"
            f"/run read up <{agents.up}\n/ask true\n/say done",
            keep=60,
        )
        asked = agents.until(job, lambda event: isinstance(event, feed.Questioned)).question
        cold.freeze(left_behind(agents))
        job.answer(asked.id, "allow")
        result = agents.wait(job)
        assert (result.failed, result.status, result.answer) == (True, "completed", "done ")
        assert [one.pid for one in result.remaining] == [left_behind(agents)]
        assert result.remaining_count == 1
        assert "could not be stopped" in result.reason
        cold.thaw()
    wait_dead(result.remaining[0].identity, BOUND)
