"""Agents' jobs that are over with their turn, or never begin: plain commands, a full disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.agent_jobs import AgentJobs, all_gone, of_kind
from lastout.jobs import feed


def test_a_command_as_an_agent_is_started_once_a_turn(agents):
    line = "command:sh -c 'setsid sleep 301 & cat; exit 3'"
    job = agents.submit("hello", agent=line, keep=60)
    first = agents.wait(job)
    assert (first.failed, first.code, first.answer) == (True, 3, "hello\n")
    (left,) = first.stopped
    assert left.name in ("sh", "setsid", "sleep"), "as it was called at that moment"
    assert all_gone(first)
    job.message("again")
    second = agents.wait(job, 2)
    assert (second.answer, second.runs == first.runs) == ("again\n", False)
    assert not [one for one in of_kind(job.feed(), feed.Notice) if "fresh one" in one.text]


def test_a_command_that_is_cancelled_is_stopped_and_the_record_says_who_asked(agents):
    line = f'command:sh -c "cat; echo up >{agents.up}; exec sleep 301"'
    job = agents.submit("hello", agent=line)
    agents.wait_up()
    job.cancel(by="the test")
    result = agents.ended(job)
    assert (result.why, result.remaining_count) == ("abort", 0)
    stops = [one for one in agents.lines(result.runs[0]) if one["event"] == "stop"]
    assert [(one["trigger"], one["reason"], one["by"]) for one in stops] == [
        ("requested", "abort", "the test")
    ]


@pytest.mark.root
def test_a_full_disk_starts_nothing_and_says_so(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    try:
        agents = AgentJobs(place)
        assert agents.wait(agents.submit("one")).answer == "you said: one "
        agents.store.set_limit(1)
        # It holds the only slot until the disk is full.
        ahead = agents.submit(f"/run echo up >{agents.up}; read go <{agents.up}")
        agents.wait_up()
        job = agents.submit("two")
        fill(place / "fill")
        agents.up.write_text("go\n")
        result = agents.wait(job)
        assert (result.failed, result.final, result.why) == (True, True, "not-started")
        assert (result.runs, result.remaining_count) == ((), 0)
        assert agents.ended(ahead).why == "completion"
        (place / "fill").unlink()
        assert agents.wait(agents.submit("three")).answer == "you said: three "
        agents.close()
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, b"x" * 512)
    except OSError:
        pass
    finally:
        os.close(fd)
