"""Waiting for a key that another has."""

from __future__ import annotations

import threading
from pathlib import Path
from signal import SIGTERM

import pytest

from harness.writers import Story, launch, note_grant, wait_write
from lastout import sole_writer
from lastout.leases.refusals import Held
from lastout.sole_writer import Grant, acquire
from lastout.verdict import Verdict


def test_waiting_ends_with_its_bound_and_leaves_no_waiter(tmp_path: Path) -> None:
    grant = acquire("k", state=tmp_path)
    with pytest.raises(Held):
        acquire("k", state=tmp_path, wait=0.15)
    assert sole_writer.open_store(tmp_path).waiters() == []
    grant.release()


def test_waiting_for_a_holder_without_a_process_is_no_lost_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is looked at: who waits for ever was told so after a hundred seconds."""
    monkeypatch.setattr(sole_writer, "_MOST_TURNS", 2)
    grant = acquire("k", state=tmp_path)
    with pytest.raises(Held):
        acquire("k", state=tmp_path, wait=0.5)
    got: list[Grant] = []
    thread = threading.Thread(target=lambda: got.append(acquire("k", state=tmp_path, wait=None)))
    thread.start()
    store = sole_writer.open_store(tmp_path)
    while not store.waiters():
        assert thread.is_alive()
    grant.release(Verdict("exited", "never-started", True))
    thread.join(30)
    assert got[0].epoch == 2
    got[0].release()


def test_waiting_goes_on_when_the_holder_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    grant = acquire("k", state=tmp_path)
    note_grant(log, grant.epoch)
    writer = launch(grant, log)
    started = writer.wait_started()
    assert started
    grant.commit(started)
    wait_write(log, grant.epoch)
    got: list[Grant] = []

    def second() -> None:
        got.append(acquire("k", state=tmp_path, wait=30))
        note_grant(log, got[0].epoch)

    thread = threading.Thread(target=second)
    thread.start()
    store = sole_writer.open_store(tmp_path)
    while not store.waiters():
        assert thread.is_alive()
    writer.front.send_signal(SIGTERM)
    thread.join(30)
    writer.front.wait()
    assert got[0].epoch == 2
    Story.read(log).check()
    got[0].release()
