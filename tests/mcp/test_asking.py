"""Jobs through the server: what blocks ends with its asker, what is in the background goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import anyio
import pytest

from lastout import jobs
from lastout.jobs import delivery
from lastout.jobs.feed import Ended
from lastout.jobs.sentences import ASKER_GONE
from lastout.mcp.seen import job as job_seen
from lastout.mcp.sentences import ENDED_WITH_CLIENT
from lastout.mcp.waiting import asks

ENDS = {
    "cancelled": ("abort", "me"),
    "left": ("shutdown", ENDED_WITH_CLIENT),
    "SIGTERM": ("shutdown", ENDED_WITH_CLIENT),
    "SIGKILL": ("shutdown", ASKER_GONE),
}
"""How the asker goes away; why its job ends then, and by whom."""


@pytest.fixture
def up(tmp_path: Path) -> Path:
    fifo = tmp_path / "up"
    os.mkfifo(fifo)
    return fifo


def wait_up(fifo: Path) -> list[int]:
    """The pids that a tool writes there."""
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(fifo.read_text()), daemon=True)
    thread.start()
    thread.join(60)
    assert said, "no tool said that it runs"
    return [int(word) for word in said[0].split()]


def gone(pid: int) -> bool:
    """Dead or reaped: the tests' process is a subreaper, and reaps late."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def tool(up: Path) -> str:
    """A command with a child in a session of its own."""
    return f"setsid sleep 301 & echo $$ $! >{up}; sleep 301; true"


def test_a_failure_is_kept_although_later_progress_replaced_the_current_line(connect):
    client = connect()
    number = client.begin(
        "ask_agent", agent="scripted", prompt="/run echo bad; exit 7\n/run true\n/say all is well"
    )
    seen = client.answer(number)["structuredContent"]
    assert (seen["state"], seen["failed"], seen["yours"]) == ("ended", False, True)
    assert seen["result"]["answer"].strip() == "all is well"
    (failure,) = seen["result"]["failed_commands"]
    assert failure == {
        "command": "echo bad; exit 7",
        "status": "failed",
        "exit_code": 7,
        "output": "bad\n",
    }
    told = client.progress(number)
    assert "echo bad; exit 7 [exit code 7]" in told
    assert told[-1] != "echo bad; exit 7 [exit code 7]", "something replaced the line"
    times = [
        line["params"]["progress"]
        for line in client.heard
        if line.get("method") == "notifications/progress"
    ]
    assert times == sorted(times)
    later = client.call("job_status", job=seen["job"], after=1)
    assert later["failed_commands"] == [failure]
    codes = [
        event["detail"].get("exit_code") for event in later["events"] if event["event"] == "command"
    ]
    assert codes == [7, 0]
    assert len(client.call("job_status", job=seen["job"], limit=2)["events"]) == 2


@pytest.mark.parametrize("how", ENDS)
def test_the_asker_goes_away_in_the_middle(connect, state, up, how):
    client = connect("--by", "me")
    aside = client.call("spawn_agent", agent="scripted", prompt="/run sleep 2\n/say done", name="b")
    blocking = client.begin("ask_agent", agent="scripted", prompt=f"/run {tool(up)}", name="a")
    pids = wait_up(up)
    match how:
        case "cancelled":
            client.cancel(blocking)
        case "left":
            assert client.leave() == 0
        case "SIGTERM":
            client.process.send_signal(signal.SIGTERM)
            assert client.process.wait(30) == 0
        case "SIGKILL":
            client.kill()
    job = jobs.open_jobs(state).get("a")
    result = job.wait(60)
    assert (result.final, result.failed, result.remaining_count) == (True, True, 0)
    assert (result.why, result.ended_by) == ENDS[how]
    assert "sleep" in {one.name for one in result.stopped}
    assert all(gone(pid) for pid in pids)
    assert [type(event) for event in job.follow_blocking(timeout=60)].count(Ended) == 1
    after = client if how == "cancelled" else connect("--by", "me")
    done = after.call("job_result", job="b", wait_s=60)
    assert (done["job"], done["result"]["answer"].strip()) == (aside["job"], "done")
    assert after.call("job_result", job="b")["result"] == done["result"], "a retry gets the same"
    assert jobs.open_jobs(state).get("b").status().taken == (1,)
    after.call("job_cancel", job="b")


def test_the_runner_of_a_blocking_job_is_killed(connect, state, up):
    client = connect()
    number = client.begin("run_command", command=["sh", "-c", tool(up)], name="a")
    pids = wait_up(up)
    runner = jobs.open_jobs(state).get("a").status().runner
    os.kill(runner.pid, signal.SIGKILL)
    seen = client.answer(number)["structuredContent"]
    assert (seen["why"], seen["failed"]) == ("runner-lost", True)
    assert seen["result"]["remaining_count"] == 0
    assert all(gone(pid) for pid in pids)


def test_a_server_that_dies_between_the_writing_and_the_start(state):
    from lastout.jobs import attached

    state.mkdir(mode=0o700)
    work = jobs.Command(argv=("true",), name="a")
    code = (
        "import sys, os; from lastout import jobs; from lastout.jobs import attached; "
        "attached.prepare(sys.argv[1], jobs.Command(argv=('true',), name='a')); os._exit(0)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(jobs.__file__).parents[2])}
    import sys

    subprocess.run([sys.executable, "-c", code, str(state)], env=env, check=True)
    store = jobs.open_jobs(state)
    result = store.get("a").wait(60)
    assert (result.why, result.failed, result.remaining_count) == ("runner-lost", True, 0)
    prepared = attached.prepare(str(state), work)  # the name is free again
    assert attached.start(prepared).wait(60) == 0
    assert prepared.job.result().failed is False


@pytest.mark.parametrize(("tool_name", "choice"), [("ask_agent", "allow"), ("spawn_agent", "deny")])
def test_a_question_reaches_the_asker_and_is_answered(connect, tmp_path, tool_name, choice):
    client = connect()
    mark = tmp_path / "mark"
    asked = client.call(tool_name, agent="scripted", prompt=f"/ask touch {mark}\n/say ok", name="a")
    if tool_name == "spawn_agent":
        asked = client.call("job_result", job="a", wait_s=60)
    assert "result" not in asked
    (question,) = asked["questions"]
    assert (question["kind"], f"touch {mark}" in question["prompt"]) == ("approval", True)
    assert {"allow", "deny"} <= {one["meaning"] for one in question["choices"]}
    assert "job_answer" in asked["next"]
    assert "none of the choices" in client.refused("job_answer", job="a", choice="maybe")
    wait = {} if tool_name == "ask_agent" else {"wait_s": 60}
    done = client.call("job_answer", job="a", question=question["id"], choice=choice, **wait)
    assert (done["result"]["answer"].strip(), mark.exists()) == ("ok", choice == "allow")
    assert "questions" not in done
    if tool_name == "spawn_agent":
        assert "waits for no answer" in client.refused("job_answer", job="a", choice="allow")
        client.call("job_cancel", job="a")


def test_a_question_that_nobody_answers_ends_with_its_asker(connect, state):
    client = connect()
    asked = client.call("ask_agent", agent="scripted", prompt="/ask true", name="a")
    assert asked["state"] == "running"
    assert client.leave() == 0
    result = jobs.open_jobs(state).get("a").result()
    assert (result.why, result.final, result.remaining_count) == ("shutdown", True, 0)
    assert result.ended_by == ENDED_WITH_CLIENT, "by the server, before its own end"


def test_messages_continue_a_job_and_an_ended_one(connect):
    client = connect()
    client.call("spawn_agent", agent="scripted", prompt="one", name="a")
    assert client.call("job_result", job="a", wait_s=60)["result"]["turn"] == 1
    for _ in range(2):  # a retry is the same message
        two = client.call("job_message", job="a", text="two", id="m", wait_s=60)
        assert (two["result"]["turn"], "two" in two["result"]["answer"]) == (2, True)
    refused = client.refused("ask_agent", agent="scripted", prompt="three", continue_job="a")
    assert "job_message" in refused
    ended = client.call("job_cancel", job="a")
    assert (ended["state"], ended["why"]) == ("ended", "abort")
    assert "has ended" in client.refused("job_message", job="a", text="three")
    three = client.call("ask_agent", agent="scripted", prompt="three", continue_job="a")
    assert "three" in three["result"]["answer"]
    assert [job["state"] for job in client.call("job_list")["jobs"]] == ["ended", "ended"]


def test_jobs_of_others_can_be_looked_at_and_nothing_else(connect, state):
    mine, other = connect("--by", "me"), connect("--by", "you")
    mine.call("spawn_agent", agent="scripted", prompt="one", name="a")
    mine.call("job_result", job="a", wait_s=60)
    assert other.call("job_list") == {"jobs": []}
    (listed,) = other.call("job_list", whose="all")["jobs"]
    assert (listed["name"], listed["asked_by"], listed["yours"]) == ("a", "me", False)
    looked = other.call("job_result", job="a")
    assert ("one" in looked["result"]["answer"], "only look" in looked["next"]) == (True, True)
    for name, more in {
        "job_cancel": {},
        "job_message": {"text": "x"},
        "job_answer": {"choice": "allow"},
    }.items():
        assert "belongs to me" in other.refused(name, job="a", **more)
    refused = other.refused("ask_agent", agent="scripted", prompt="x", continue_job="a")
    assert "belongs to me" in refused
    status = jobs.open_jobs(state).get("a").status()
    assert (status.state, status.taken) == ("idle", (1,))
    mine.call("job_cancel", job="a")


def test_a_result_that_somebody_else_has_taken(connect, state):
    client = connect()
    asked = client.call("ask_agent", agent="scripted", prompt="/ask true", name="q")
    delivery.take(jobs.open_jobs(state).get("q").directory, asked["job"], 1, "a person")
    text = client.refused("job_answer", job="q", choice="allow")
    assert ("a person" in text, "AlreadyTaken" in text) == (True, False)
    client.call("run_command", command=["true"], background=True, name="a")
    jobs.open_jobs(state).get("a").wait(60)
    jobs.open_jobs(state).get("a").take("a person")
    assert "a person" in client.refused("job_result", job="a")


def test_commands(connect):
    client = connect()
    done = client.call("run_command", command=["sh", "-c", "echo out; echo err >&2; exit 3"])
    result = done["result"]
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (3, "out\n", "err\n")
    assert (result["failed"], done["reason"]) == (True, "it ended with status 3")
    long = client.call("run_command", command=["seq", "1000000"])["result"]["stdout"]
    assert (len(long) < 21_000, long[:4], long[-8:]) == (True, "1\n2\n", "1000000\n")
    assert "left out" in long
    late = client.call("run_command", command=["sleep", "301"], timeout_s=1)
    assert (late["why"], late["result"]["signal"]) == ("timeout", 15)
    missing = client.call("run_command", command=["/no/such/program"])
    assert (missing["why"], "/no/such/program" in missing["reason"]) == ("not-started", True)
    env = client.call("run_command", command=["sh", "-c", "echo $GREETING"], env={"GREETING": "hi"})
    assert env["result"]["stdout"] == "hi\n"


def test_blocking_jobs_take_no_slot(connect, state):
    jobs.open_jobs(state).set_limit(1)
    client = connect()
    client.call("run_command", command=["sleep", "301"], background=True, name="a")
    queued = client.call("run_command", command=["true"], background=True, name="b")
    assert queued["state"] == "queued"
    assert client.call("run_command", command=["true"])["result"]["exit_code"] == 0
    client.call("job_cancel", job="a")
    assert client.call("job_result", job="b", wait_s=60)["result"]["exit_code"] == 0


def test_a_question_that_was_answered_just_now_is_asked_no_more():
    """The job's runner takes it away a moment later."""

    class Asking:
        def status(self):
            asked = tuple(jobs.Question(id=name, prompt="?") for name in ("1", "2"))
            return jobs.Status(id="x", kind="agent", state="running", by="", questions=asked)

    assert [anyio.run(asks, Asking(), answered) for answered in ([], ["1"], ["1", "2"])] == [
        True,
        True,
        False,
    ]
    seen = job_seen(Asking(), "", answered=["2"])
    assert [question.id for question in seen.questions] == ["1"]
