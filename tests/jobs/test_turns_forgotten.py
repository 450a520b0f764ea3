"""What is stored of an agent's conversation goes with the last of its jobs."""

from __future__ import annotations

import contextlib
import sqlite3

from lastout.jobs import feed, open_jobs, turns_open


def test_with_the_last_job_of_a_conversation_goes_what_is_stored_of_it(agents):
    first = agents.submit("a secret word")
    agents.wait(first)
    more = agents.submit("another", agent="", continues=first.id)
    agents.wait(more)
    path = str(agents.state / "conversations.sqlite3")

    def stored() -> list[str]:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return [text for (text,) in database.execute("SELECT text FROM messages")]

    assert stored() == ["a secret word", "another"]
    first.remove(untaken=True)
    assert stored() == ["a secret word", "another"]
    more.remove(untaken=True)
    assert stored() == []


def test_prune_forgets_conversations_and_reads_no_note_twice(agents, monkeypatch):
    made = [agents.submit(f"secret {number}", keep=0) for number in range(4)]
    for job in made:
        agents.wait(job)
        agents.until(job, lambda event: isinstance(event, feed.Ended))
    read: list[str] = []
    noted = turns_open.noted

    def told(state: str, job: str):
        read.append(job)
        return noted(state, job)

    monkeypatch.setattr(turns_open, "noted", told)
    found = open_jobs(agents.state).prune(keep=1, untaken=True)
    assert len(found.removed) == 3
    assert sorted(read) == sorted(job.id for job in made)
    with contextlib.closing(sqlite3.connect(agents.state / "conversations.sqlite3")) as database:
        stored = [text for (text,) in database.execute("SELECT text FROM messages")]
    (left,) = [job for job in made if job.id not in found.removed]
    assert stored == [left.spec.work.prompt]
