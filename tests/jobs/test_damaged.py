"""One job whose files cannot be read, or written, is nobody else's business."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.identity import Identity
from harness.jobs import PATIENCE, runners_end
from lastout.cli._job_submit import _values
from lastout.jobs import Command, Jobs, attached, conclude, door, layout, queue, route, submitting
from lastout.outcome import Outcome


@pytest.fixture
def unreadable(store: Jobs) -> str:
    """The middle one of three jobs, which wait until somebody starts runners."""
    layout.make(store.state)
    with door.door(store.state):
        held = [slot for _ in range(4) if (slot := door.free_slot(store.state)) is not None]
    ids = [store.submit(Command(["true"], name=f"job {n}")).id for n in range(3)]
    spec = Path(store.get(ids[1]).directory) / layout.SPEC
    spec.rename(spec.with_name("away"))
    spec.mkdir()
    for _, fd in held:
        os.close(fd)
    return ids[1]


def test_the_others_run_and_it_is_listed_with_its_problem(
    store: Jobs, unreadable: str, nothing_left: set[Identity]
) -> None:
    for name in ("job 0", "job 2"):
        assert not store.get(name).wait(PATIENCE).failed
    runners_end(store.state, nothing_left)
    (status,) = [one for one in store.list() if one.id == unreadable]
    assert "directory" in (status.problem or "")
    assert store.prune(keep=0, untaken=True).removed
    assert [one.id for one in store.list()] == [unreadable]


def test_nobody_starts_runners_for_it_over_and_over(
    store: Jobs, unreadable: str, nothing_left: set[Identity]
) -> None:
    store.get("job 2").wait(PATIENCE)
    store.get("job 0").wait(PATIENCE)
    runners_end(store.state, nothing_left)
    assert [entry.job for entry in queue.entries(store.state)] == [unreadable]
    assert route.start_runners(store.state) == 0


@pytest.mark.parametrize("place", ["", "queue"])
def test_a_submit_that_cannot_be_made_durable_leaves_nothing(
    store: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    store.submit(Command(["true"])).wait(PATIENCE)
    before = {one.id for one in store.list()}
    top = layout.jobs_directory(store.state)
    synced = submitting.sync_directory

    def fails(path: str) -> None:
        if path == os.path.join(top, place).rstrip("/"):
            raise OSError(5, os.strerror(5), path)
        synced(path)

    with monkeypatch.context() as patch:
        patch.setattr(submitting, "sync_directory", fails)
        with pytest.raises(OSError, match=os.strerror(5)):
            store.submit(Command(["touch", str(tmp_path / "ran")], name="it"))
    assert {one.id for one in store.list()} == before
    assert queue.entries(store.state) == []
    assert not [name for name in os.listdir(top) if name.startswith(layout.HALF)]
    again = store.submit(Command(["true"], name="it"))
    assert not again.wait(PATIENCE).failed
    assert not (tmp_path / "ran").exists()


def test_nor_does_one_that_is_attached_to_its_asker(
    store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str) -> None:
        raise OSError(5, os.strerror(5), path)

    with monkeypatch.context() as patch:
        patch.setattr(attached, "sync_directory", fails)
        with pytest.raises(OSError, match=os.strerror(5)):
            attached.prepare(store.state, Command(["true"], name="it"))
    assert (list(store.ids()), queue.active(store.state)) == ([], [])
    top = layout.jobs_directory(store.state)
    assert not [name for name in os.listdir(top) if name.startswith(layout.HALF)]


def test_what_a_submitter_left_half_made_is_swept_later(
    store: Jobs, nothing_left: set[Identity]
) -> None:
    store.submit(Command(["true"])).wait(PATIENCE)
    runners_end(store.state, nothing_left)
    top = Path(layout.jobs_directory(store.state))
    old, young = top / f"{layout.HALF}old", top / f"{layout.HALF}young"
    for half in (old, young):
        half.mkdir()
        (half / layout.LOCK).touch()
    os.utime(old, (time.time() - 4000,) * 2)
    store.submit(Command(["true"])).wait(PATIENCE)
    runners_end(store.state, nothing_left)
    assert not old.exists()
    assert young.exists(), "its submitter may be about to lock it"
    store.recover()
    assert not young.exists()


def test_a_lost_job_of_which_a_run_is_unproven_never_says_that_nobody_is_left() -> None:
    gone = Outcome(
        run="r", verdict="exited", returncode=0, root_status=0, tree_gone=True, root_gone=True,
        stop=None, stopped=(), remaining=(), record=None,
    )  # fmt: skip
    told = conclude.lost(gone, [], reason="lost", proven=False, locks=())
    assert told.remaining_count is None
    assert conclude.lost(gone, [], reason="lost", proven=True, locks=()).remaining_count == 0


@pytest.mark.parametrize("also", [[], ["--label", "a=b"]], ids=["quick", "click"])
def test_a_state_directory_that_is_no_text_is_refused_before_anything_is_written(
    tmp_path: Path, also: list[str]
) -> None:
    state = os.fsencode(tmp_path) + b"/\xff"
    argv = [sys.executable, "-m", "lastout", "job", "submit", "--json", "--state", state, *also]
    done = subprocess.run([*argv, "--", "true"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not os.path.exists(state + b"/jobs")


def test_an_option_that_is_nested_too_deeply_is_text() -> None:
    deep = "[" * 100_000
    assert _values({"a": deep, "b": "[1]"}) == {"a": deep, "b": [1]}
