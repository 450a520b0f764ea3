"""`lastout job`, as a person and as a program use it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.jobs import PATIENCE, Line
from harness.pauses import stillness
from lastout.cli._job_words import event_line
from lastout.jobs import Jobs, feed
from lastout.jobs.waiting import Waiting


def _argv(store: Jobs, *words: str) -> list[str]:
    first, *rest = words
    return [sys.executable, "-m", "lastout", "job", first, "--state", store.state, *rest]


def _run(store: Jobs, *words: str, status: int = 0) -> str:
    done = subprocess.run(_argv(store, *words), capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_submit_wait_show_log_result_remove(store: Jobs) -> None:
    job = _run(store, "submit", "--name", "it", "--", "sh", "-c", "echo hi; exit 4").strip()
    assert "it ended with status 4" in _run(store, "wait", "it", status=1)
    shown = _run(store, "show", "it")
    assert "turn 1    failed: it ended with status 4 (not taken)" in shown
    assert f"job       {job}  (it)" in shown
    assert "ended: it ended with status 4" in _run(store, "log", job[:-2], "-f")
    assert _run(store, "log", "it", "--output", "stdout") == "hi\n"
    told = json.loads(_run(store, "result", "it", "--take", "me", "--json", status=1))
    assert (told["code"], told["why"], told["failed"]) == (4, "completion", True)
    assert "taken by 'me'" in _run(store, "result", "it", "--take", "you", status=1)
    (listed,) = json.loads(_run(store, "list", "--json"))
    assert (listed["id"], listed["state"], listed["taken"]) == (job, "ended", [1])
    assert "failed" in _run(store, "list")
    _run(store, "remove", "it")
    assert "there is no job" in _run(store, "list")
    assert "there is no job 'it'" in _run(store, "show", "it", status=1)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--", "sh", "-c", "echo out; echo err >&2; exit 5"], 5),
        (["--", "sh", "-c", "echo out; echo err >&2; kill -KILL $$"], 137),
        (["--timeout", "0.3", "--", "sh", "-c", "echo out; echo err >&2; exec sleep 600"], 124),
        (["--", "sh", "-c", "echo out; echo err >&2"], 0),
    ],
)
def test_run_shows_the_output_and_mirrors_the_end(
    store: Jobs, words: list[str], status: int
) -> None:
    done = subprocess.run(_argv(store, "run", *words), capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout == "out\n"
    assert done.stderr.startswith("err\n")
    assert store.list()[0].taken == (1,)


def test_ctrl_c_cancels_and_a_kill_leaves_it_running(
    store: Jobs, tmp_path: Path, line: Line
) -> None:
    script = f"echo on >{tmp_path}/said; exec sleep 600"
    polite = f"trap 'echo cleaned; exit' TERM; echo on >{tmp_path}/said; sleep 600 & wait"
    argv = _argv(store, "run", "--", "sh", "-c", polite)
    first = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert line() == "on"
    first.send_signal(signal.SIGINT)
    printed, said = first.communicate(timeout=PATIENCE)
    assert printed == b"cleaned\n"
    assert b"cancelled by Ctrl-C" in said
    assert first.returncode == 128 + signal.SIGINT
    second = subprocess.Popen(_argv(store, "run", "--", "sh", "-c", script))
    assert line() == "on"
    second.kill()
    second.wait()
    status = store.list()[-1]
    assert (status.state, status.runner_alive) == ("running", True)
    _run(store, "cancel", "--wait", "--now", status.id)
    assert store.get(status.id).result().why == "abort"


def test_who_does_not_want_to_wait_for_the_end_of_a_cancelled_job(
    store: Jobs, tmp_path: Path, line: Line
) -> None:
    script = f"echo on >{tmp_path}/said; exec sleep 600"
    argv = _argv(store, "run", "--", "sh", "-c", script)
    first = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert line() == "on"
    (status,) = store.list()
    assert status.runner is not None
    stillness.ask()
    os.kill(status.runner.pid, signal.SIGSTOP)  # so that nothing comes of a cancel
    assert "for --wait" in _run(store, "cancel", "--timeout", "3", status.id, status=2)
    said = _run(store, "cancel", "--wait", "--timeout", "0.1", status.id, status=124)
    assert f"job {status.id} has no result after 0.1 s" in said
    first.send_signal(signal.SIGINT)
    assert first.stderr is not None
    assert first.stderr.readline() == f"cancelling {status.id}; again leaves it to itself\n"
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=PATIENCE)
    assert told == f"left to itself: lastout job wait {status.id}\n"
    assert first.returncode == 128 + signal.SIGINT
    os.kill(status.runner.pid, signal.SIGCONT)
    assert store.get(status.id).wait(PATIENCE).why == "abort"


def test_usage_and_limits(store: Jobs) -> None:
    assert "which command?" in _run(store, "submit", status=2)
    assert "--option and --program are for" in _run(
        store, "submit", "--option", "a=b", "--", "true", status=2
    )
    assert "NAME=VALUE" in _run(store, "submit", "--env", "A", "--", "true", status=2)
    assert "--timeout" in _run(store, "submit", "--timeout", "-3", "--", "true", status=2)
    assert "no preset" in _run(store, "submit", "--budget", "none", "--", "true", status=1)
    assert "which prompt?" in _run(store, "submit", "--agent", "codex", status=2)
    assert _run(store, "limit").strip() == "4"
    assert json.loads(_run(store, "limit", "2", "--json")) == {"limit": 2}
    assert store.limit == 2


@pytest.mark.parametrize("seconds", ["1e300", "2000000.5"])
def test_what_no_supervisor_takes_as_a_timeout_is_refused_at_once(
    store: Jobs, seconds: str
) -> None:
    said = _run(store, "submit", "--timeout", seconds, "--", "true", status=1)
    assert "timeout is at most 2000000 seconds" in said
    said = _run(store, "submit", "--agent", "scripted", "--keep", seconds, "hello", status=1)
    assert "keep is at most 2000000 seconds" in said
    assert not store.list()


@pytest.mark.parametrize("seconds", [1e300, math.inf])
def test_a_wait_may_be_longer_than_a_poll(tmp_path: Path, seconds: float) -> None:
    with Waiting(str(tmp_path)) as waiting:
        (tmp_path / "news").touch()
        waiting.wait_blocking(seconds)


def test_a_wait_for_no_number_of_seconds_is_refused(store: Jobs) -> None:
    job = _run(store, "submit", "--", "true").strip()
    assert "not nan" in _run(store, "wait", job, "--timeout", "nan", status=1)
    _run(store, "wait", job, "--timeout", "inf")


def test_a_turn_that_will_never_be_is_not_said_to_come(store: Jobs) -> None:
    job = _run(store, "submit", "--", "true").strip()
    _run(store, "wait", job)
    for words in (["wait", job, "--turn", "7"], ["result", job, "--turn", "7"]):
        assert f"job {job} has ended, and had no turn 7" in _run(store, *words, status=1)


def test_a_result_has_the_output_and_says_who_took_it(store: Jobs) -> None:
    job = _run(store, "submit", "--", "sh", "-c", "echo out; echo err >&2").strip()
    _run(store, "wait", job)
    argv = _argv(store, "result", job, "--take", "me")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == f"{job}: done (taken by me)\nout\n"
    assert done.stderr == "err\n"
    script = "head -c 5242880 /dev/zero; echo end"
    job = _run(store, "submit", "--", "sh", "-c", script).strip()
    _run(store, "wait", job)
    done = subprocess.run(_argv(store, "result", job), capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\0end\n")
    assert done.stderr.endswith(" bytes of stdout were dropped]\n")


def test_jobs_are_found_by_how_they_ended_and_as_the_last(store: Jobs) -> None:
    assert "there is no job 'last'" in _run(store, "show", "last", status=1)
    good, bad = (_run(store, "submit", "--", word).strip() for word in ("true", "false"))
    _run(store, "wait", good)
    _run(store, "wait", "last", status=1)

    def listed(*words: str) -> list[str]:
        return [one["id"] for one in json.loads(_run(store, "list", "--json", *words))]

    assert listed("--only", "failed") == [bad]
    assert listed("--only", "done") == [good]
    assert listed("--only", "ended") == listed("--only", "failed", "--only", "done") == [good, bad]
    assert _run(store, "list", "--open") == "no job is open\n"
    assert bad in _run(store, "show", "last")


def test_json_is_json_also_when_the_time_is_over(store: Jobs) -> None:
    job = _run(store, "submit", "--", "sleep", "600").strip()

    def told(*words: str) -> dict[str, object]:
        argv = _argv(store, *words, job, "--timeout", "0.1", "--json")
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 124
        assert "has no result" in done.stderr
        return json.loads(done.stdout)

    status = told("wait")
    assert (status["id"], status.get("state") in ("queued", "starting", "running")) == (job, True)
    assert "--json is for" in _run(store, "log", job, "--json", "--output", "stdout", status=2)
    _run(store, "cancel", "--wait", "--now", job)


def test_what_cannot_be_written_down_is_named(store: Jobs, tmp_path: Path) -> None:
    word = os.fsdecode(b"a\xffb")
    said = _run(store, "submit", "--", "printf", word, status=1)
    assert r"'a\udcffb' is not UTF-8" in said
    gone = tmp_path / "gone"
    gone.mkdir()
    argv = _argv(store, "submit", "--", "true")
    program = f"import os, sys; os.rmdir({str(gone)!r}); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: the current directory was removed" in done.stderr


def test_an_answer_reads_as_it_was_written() -> None:
    text = "one\n\n- two\x1b[31m\n"
    told = event_line(feed.Text(seq=1, at="2026-11-30T22:43:27.000Z", role="answer", text=text))
    assert told == "22:43:27  answer: one\n          \n          - two\\x1b[31m"
