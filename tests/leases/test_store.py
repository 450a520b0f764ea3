"""What every lease store does: the same suite on memory and on SQLite."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastout import identity
from lastout.leases import model
from lastout.leases.memory import MemoryStore
from lastout.leases.model import Change, Holder, Lease, Moment
from lastout.leases.refusals import Fenced, Held
from lastout.leases.sqlite import SqliteStore
from lastout.leases.store import Store, Stored
from lastout.verdict import Verdict

ME = identity.take(os.getpid())
HOLDER = Holder("run-1", record="/r/run-1.jsonl", owner=ME, host="here", boot_id=ME.boot_id)
GONE = Verdict("exited", "tree-gone", True, {"status": 0})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path)
    yield made
    made.close()


def lease_of(stored: Stored | None) -> Lease | None:
    return stored.lease if stored else None


def reserve(store: Store, key: str, above: int = 0, run: str = "run-1") -> Lease:
    holder = Holder(run, record=HOLDER.record, owner=ME)
    return store.change(
        key, lambda found, at: model.reserve(lease_of(found), key, holder, at, above=above)
    )


def settle(store: Store, key: str, epoch: int, verdict: Verdict = GONE) -> Lease:
    return store.change(key, lambda found, at: model.settle(lease_of(found), epoch, verdict, at))


def commit(store: Store, key: str, epoch: int) -> Lease:
    return store.change(
        key,
        lambda found, at: model.commit(
            lease_of(found), epoch, at, front=ME, keeper=ME, root=ME, max_stop_ms=5500
        ),
    )


def test_a_whole_life_comes_back_as_it_was_written(store: Store) -> None:
    assert store.get("k") is None
    assert store.leases() == []
    granted = reserve(store, "k")
    assert (granted.state, granted.epoch) == ("reserved", 1)
    committed = commit(store, "k", 1)
    proven = store.change(
        "k", lambda found, at: model.prove(lease_of(found), 1, at, writer=ME, evidence={"a": 1})
    )
    found = store.get("k")
    assert found is not None
    assert found.lease == proven
    assert committed.holder is not None
    assert committed.holder.root == ME
    freed = settle(store, "k", 1)
    assert freed.free
    assert freed.verdict == GONE
    assert store.leases() == [freed]
    events = [entry.event for entry in store.history("k")]
    assert events == ["reserved", "committed", "proven", "exited"]
    assert all(entry.run == "run-1" for entry in store.history("k"))
    assert store.history("k")[2].detail["evidence"] == {"a": 1}
    assert [entry.event for entry in store.history("k", limit=2)] == ["proven", "exited"]
    assert store.history("other") == []


def test_keys_are_apart_and_may_be_anything(store: Store) -> None:
    keys = ["a", "b", "ä/../..", "🦊", "'; DROP TABLE lease; --", " ", "x" * 5000]
    for key in keys:
        reserve(store, key)
    assert [lease.key for lease in store.leases()] == sorted(keys)
    settle(store, "a", 1)
    assert [lease.key for lease in store.leases() if lease.free] == ["a"]


def test_a_refusal_leaves_everything_as_it_was(store: Store) -> None:
    granted = reserve(store, "k")
    with pytest.raises(Held):
        reserve(store, "k")
    with pytest.raises(Fenced):
        settle(store, "k", 7)

    def broken(found: Stored | None, at: Moment) -> Change:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        store.change("k", broken)
    assert store.leases() == [granted]
    assert len(store.history("k")) == 1
    settle(store, "k", 1)  # and the next change goes ahead


def test_epochs_rise_strictly(store: Store) -> None:
    seen = []
    for above in (0, 0, 10, 3, 0):
        seen.append(reserve(store, "k", above).epoch)
        settle(store, "k", seen[-1])
    assert seen == [1, 2, 11, 12, 13]
    assert store.floor() == 0


def test_waiters_come_and_go(store: Store) -> None:
    one, two = store.wait_begin("k", ME), store.wait_begin("other", ME)
    assert [(who.number, who.key, who.identity) for who in store.waiters()] == [
        (one, "k", ME),
        (two, "other", ME),
    ]
    store.wait_end(one)
    store.wait_end(one)
    assert [who.key for who in store.waiters()] == ["other"]


def test_one_of_many_threads_wins_each_grant(store: Store) -> None:
    won: list[int] = []
    lost = []

    def race() -> None:
        for _ in range(20):
            try:
                epoch = reserve(store, "k").epoch
            except Held:
                lost.append(1)
            else:
                won.append(epoch)
                settle(store, "k", epoch)

    run_together([race] * 8)
    assert sorted(won) == list(range(1, len(won) + 1)), "every epoch once, none left out"
    assert won == sorted(won)


def run_together(jobs: list[Callable[[], None]]) -> None:
    failed: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
