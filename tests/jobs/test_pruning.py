"""Removing what is too old or too many, and never what somebody still has to take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.identity import Identity
from harness.jobs import PATIENCE, Gate, Line, runners_end
from lastout.jobs import Command, Job, Jobs, NoSuchJob, Pruned

DAY = 86400


def ended(store: Jobs, *takers: str | None) -> list[Job]:
    """A job for each taker, ended one after the other; None leaves its result where it is."""
    made = []
    for taker in takers:
        job = store.submit(Command(["true"]))
        job.wait(PATIENCE)
        if taker is not None:
            job.take(taker)
        made.append(job)
    return made


def test_the_newest_are_kept(store: Jobs, nothing_left: set[Identity]) -> None:
    made = ended(store, *"abcd")
    runners_end(store.state, nothing_left)
    oldest = tuple(job.id for job in made[:2])
    assert store.prune(keep=2, dry_run=True) == Pruned(oldest, {})
    assert {one.id for one in store.list()} == {job.id for job in made}
    assert store.prune(keep=2) == Pruned(oldest, {})
    assert [one.id for one in store.list()] == [job.id for job in made[2:]]
    assert store.prune(keep=2) == Pruned((), {})
    with pytest.raises(NoSuchJob):
        made[0].status()


def test_age_counts_from_the_end(store: Jobs, nothing_left: set[Identity]) -> None:
    (job,) = ended(store, "me")
    runners_end(store.state, nothing_left)
    assert store.prune(older_than=DAY) == Pruned((), {})
    assert store.prune(older_than=0) == Pruned((job.id,), {})


def test_what_nobody_has_taken_stays_and_counts(store: Jobs, nothing_left: set[Identity]) -> None:
    first, second, third = ended(store, None, "me", None)
    runners_end(store.state, nothing_left)
    found = store.prune(keep=1)
    assert found.removed == (second.id,)
    assert list(found.kept) == [first.id]
    assert f"job result {first.id} --take" in found.kept[first.id]
    assert store.prune(keep=1, untaken=True) == Pruned((first.id,), {})
    assert [one.id for one in store.list()] == [third.id]


def test_what_runs_is_no_candidate(
    store: Jobs, tmp_path: Path, line: Line, nothing_left: set[Identity], gate: Gate
) -> None:
    go = gate()
    script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go"
    job = store.submit(Command(["sh", "-c", script]))
    assert line() == "on"
    assert store.prune(older_than=0, keep=0, untaken=True) == Pruned((), {})
    go()
    job.wait(PATIENCE)
    runners_end(store.state, nothing_left)
    assert store.prune(keep=0, untaken=True) == Pruned((job.id,), {})


def test_without_a_limit_nothing_is_done(store: Jobs) -> None:
    with pytest.raises(ValueError, match="say what is too much"):
        store.prune()
    with pytest.raises(ValueError, match="from 0"):
        store.prune(older_than=float("nan"))


def test_the_command(store: Jobs, nothing_left: set[Identity]) -> None:
    first, second = ended(store, "me", None)
    runners_end(store.state, nothing_left)

    def prune(*words: str, status: int = 0) -> str:
        argv = [sys.executable, "-m", "lastout", "job", "prune", "--state", store.state, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "--older-than or --keep" in prune(status=2)
    assert "like 90d, not '3 moons'" in prune("--older-than", "3 moons", status=1)
    assert prune("--keep", "0", "--dry-run").startswith("1 job would be removed\nstays: ")
    told = json.loads(prune("--keep", "0", "--json"))
    assert (told["removed"], list(told["kept"])) == ([first.id], [second.id])
    assert prune("--older-than", "0s", "--untaken") == "1 job removed\n"
    assert not list(store.list())
