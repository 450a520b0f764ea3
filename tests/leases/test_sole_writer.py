"""acquire, commit, prove, release: what a program that uses them can rely on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import anyio
import pytest

import lastout
from harness.fuse import fuse
from harness.kernels import needs_inodes
from harness.writers import Story, kill, launch, note_grant, wait_write
from lastout import identity, outcome, overdue, sole_writer
from lastout.evidence.events import Started
from lastout.leases import locks, model, sqlite_file
from lastout.leases.memory import MemoryStore
from lastout.leases.model import Holder, Moment
from lastout.leases.refusals import Fenced, Held, LeaseUnproven, StoreUnusable
from lastout.leases.sqlite import SqliteStore
from lastout.sole_writer import Grant, acquire
from lastout.verdict import Verdict


def test_a_whole_life(tmp_path: Path) -> None:
    log = tmp_path / "log"
    grant = acquire("k", state=tmp_path)
    store = sole_writer.open_store(tmp_path)
    writer = launch(grant, log)
    started = writer.wait_started()
    assert isinstance(started, Started)
    assert (started.key, started.epoch) == ("k", 1)
    assert grant.commit(started).state == "committed"
    lease = grant.prove(evidence={"said": "hello"})
    assert lease.holder is not None
    assert lease.holder.writer == lease.holder.root
    assert lease.holder.max_stop_ms == started.max_stop_ms
    with pytest.raises(Held) as held:
        acquire("k", state=tmp_path)
    assert held.value.lease == lease
    writer.stop()
    verdict = grant.release()
    assert (verdict.kind, verdict.how) == ("exited", "tree-gone")
    assert grant.release() == verdict, "again changes nothing"
    assert [entry.event for entry in store.history("k")] == [
        "reserved", "committed", "proven", "exited",
    ]  # fmt: skip


def test_release_of_a_run_that_is_still_alive_stops_it_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    grant = acquire("k", state=tmp_path)
    writer = launch(grant, log)
    assert writer.wait_started()
    verdict = grant.release()
    assert verdict.kind == "exited"
    writer.front.wait()


def test_an_end_that_no_supervisor_told_is_written_as_what_it_was(tmp_path: Path) -> None:
    """The supervisors hang, the root is dead: the forced step finds nothing of the run alive."""
    grant = acquire("k", state=tmp_path)
    writer = launch(grant, tmp_path / "log")
    started = writer.wait_started()
    assert started
    grant.commit(started)
    front, keeper, root = (
        outcome.identity_of(one, started) for one in (started.front, started.keeper, started.root)
    )
    # The front first: while it runs it resumes the keeper.
    for one, number in ((front, SIGSTOP), (keeper, SIGSTOP), (root, SIGKILL)):
        kill(one, number)
    assert identity.wait_dead(root, 10) is identity.Alive.NO
    found = overdue.settle([started], run=grant.run, record=grant.record)
    writer.front.wait()
    assert (found.verdict, found.how) == ("exited", "nothing-left")
    verdict = grant.release(found)
    assert (verdict.kind, verdict.how) == ("exited", "nothing-left")
    stored = sole_writer.open_store(tmp_path).get("k")
    assert stored is not None
    assert stored.lease.verdict is not None
    assert stored.lease.verdict.how == "nothing-left"


def test_release_of_what_was_never_started(tmp_path: Path) -> None:
    grant = acquire("k", state=tmp_path)
    assert grant.release().how == "never-started"
    late = launch(grant, tmp_path / "log")
    assert late.front.wait() == 125, "the fence is before whoever comes late"
    assert acquire("k", state=tmp_path).release().settled


def test_a_fenced_holder_is_told_so(tmp_path: Path) -> None:
    grant = acquire("k", state=tmp_path)
    store = sole_writer.open_store(tmp_path)
    store.change(
        "k",
        lambda found, at: model.settle(found and found.lease, 1, Verdict("killed", "forced"), at),
    )
    newer = acquire("k", state=tmp_path)
    with pytest.raises(Fenced, match="epoch 2"):
        grant.prove()
    assert grant.release().kind == "unproven", "nothing is known from here, and nothing changed"
    stored = store.get("k")
    assert stored is not None
    assert (stored.lease.epoch, stored.lease.state) == (2, "reserved")
    newer.release()


def test_two_threads_of_one_process_never_have_the_same_key(tmp_path: Path) -> None:
    got: list[Grant] = []
    refused: list[Held] = []
    gate = threading.Barrier(8)

    def race() -> None:
        gate.wait()
        try:
            got.append(acquire("k", state=tmp_path))
        except Held as error:
            refused.append(error)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
    got[0].release()


def test_ones_own_live_run_is_known_under_every_name_of_the_state_directory(tmp_path: Path) -> None:
    state, link, log = tmp_path / "state", tmp_path / "link", tmp_path / "log"
    state.mkdir()
    link.symlink_to(state)
    grant = acquire("k", state=state)
    writer = launch(grant, log)
    started = writer.wait_started()
    assert started
    grant.commit(started)
    with pytest.raises(Held):
        acquire("k", state=link)
    assert sole_writer.open_store(link) is sole_writer.open_store(state)
    writer.stop()
    assert b'"event":"stop"' in Path(str(grant.record)).read_bytes()
    assert (grant.release().kind, acquire("k", state=link).epoch) == ("exited", 2)


def test_a_front_to_be_that_died_holds_nothing_although_its_shell_lives(tmp_path: Path) -> None:
    """`lastout run` was killed between its reservation and its lock."""
    with subprocess.Popen(["sleep", "60"]) as process:
        front = identity.take(process.pid)
        shell = identity.take(os.getpid())
        acquire("k", state=tmp_path, owner=shell, front=front)
        with pytest.raises(Held):
            acquire("k", state=tmp_path, owner=shell, front=shell)
        process.kill()
    again = acquire("k", state=tmp_path, owner=shell, front=shell)
    assert again.epoch > 1
    again.release(Verdict("exited", "never-started", True))


def _lose(state: Path) -> None:
    for path in state.glob("leases.sqlite3*"):
        path.unlink()


def _damage(state: Path) -> None:
    store = sole_writer.open_store(state)
    assert isinstance(store, SqliteStore)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (state / "leases.sqlite3").write_bytes(b"rubbish" * 2000)


LOSSES = {"the store is lost": _lose, "the store is damaged, its backup older": _damage}


@needs_inodes
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("life", ["alive", "dead"])
def test_a_run_that_the_store_has_forgotten_is_found_through_its_lock_file(
    tmp_path: Path, loss: str, life: str
) -> None:
    """What was granted after the backup, or ever: its lock file names run, record and owner."""
    state, log = tmp_path / "state", tmp_path / "log"
    acquire("before", state=state).release()
    store = sole_writer.open_store(state)
    assert isinstance(store, SqliteStore)
    sqlite_file.back_up(store.state, store._db)
    grant = acquire("k", state=state)
    note_grant(log, grant.epoch)
    writer = launch(grant, log, wrapper=True)
    started = writer.wait_started()
    assert started
    grant.commit(started)
    wait_write(log, grant.epoch)
    LOSSES[loss](state)
    with SqliteStore(state) as fresh:
        assert fresh.get("k") is None, "it was granted after the backup"
        if life == "alive":
            for _ in range(2):
                with pytest.raises(Held, match=grant.run):
                    acquire("k", state=state, store=fresh)
        for name in ("front", "keeper"):
            one = getattr(started, name)
            kill(
                identity.ProcessIdentity(
                    one.pid, one.start, one.inode, started.boot_id, started.pidns
                )
            )
        writer.front.wait()
        again = acquire("k", state=state, store=fresh)
        note_grant(log, again.epoch)
        assert again.epoch > grant.epoch
        Story.read(log).check()
        again.release()
    shutil.rmtree(state)


def test_a_lock_that_nobody_knows_is_not_taken_for_free(tmp_path: Path) -> None:
    """Held, and no store and no content says by whom: refused as unproven, with the ways out."""
    import fcntl

    folder = locks.directory(tmp_path, "k")
    path = locks.create(folder, 7, {})
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        for _ in range(2):
            with pytest.raises(LeaseUnproven, match="lock of the run"):
                acquire("k", state=tmp_path)
        words = ["lease", "release", "k", "--state", str(tmp_path), "--reason", "I know who it is"]
        subprocess.run([sys.executable, "-m", "lastout", *words], check=True, capture_output=True)
        acquire("k", state=tmp_path).release()
    finally:
        os.close(fd)
    grant = acquire("k", state=tmp_path)
    assert grant.epoch > 7
    grant.release()


def test_old_lock_files_are_tidied_and_never_those_that_are_held(tmp_path: Path) -> None:
    for _ in range(5):
        acquire("k", state=tmp_path).release(Verdict("exited", "never-started", True))
    grant = acquire("k", state=tmp_path)
    assert len(locks.epochs(locks.directory(tmp_path, "k"))) <= 2
    grant.release()


def test_wall_clocks_may_jump(tmp_path: Path) -> None:
    """No decision reads them: an hour back, a year ahead, and before all epochs."""
    store = MemoryStore()
    for epoch, wall in enumerate(["2030-01-01", "1970-01-01", "2026-11-30", ""], start=1):
        odd = Moment(-epoch, wall)
        store.moment = lambda at=odd: at  # type: ignore[method-assign]
        grant = acquire("k", state=tmp_path, store=store)
        assert grant.epoch == epoch
        with pytest.raises(Held):
            acquire("k", state=tmp_path, store=store)
        grant.release(Verdict("exited", "never-started", True))


def test_a_file_system_that_cannot_lock_is_refused_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lastout.leases import filesystem

    monkeypatch.setattr(filesystem, "type_of", lambda path: "nfs4")
    filesystem.refuse_foreign.cache_clear()
    with pytest.raises(StoreUnusable, match="nfs4"):
        acquire("k", state=tmp_path)


def test_a_fuse_mount_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with fuse(tmp_path) as point:
        with pytest.raises(StoreUnusable, match="is on fuse"):
            acquire("k", state=point)
        assert list(point.iterdir()) == []


def test_the_key_is_a_word(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not empty"):
        acquire("", state=tmp_path)


async def _open(tmp_path: Path, *argv: str, **more: object) -> lastout.Process:
    async with lastout.open_process(
        list(argv), key="k", state=tmp_path, graces="instant", **more
    ) as process:
        stored = sole_writer.open_store(tmp_path).get("k")
        assert stored is not None
        assert stored.lease.state == "committed"
        with pytest.raises(Held):
            async with lastout.open_process(["true"], key="k", state=tmp_path):
                pass
    return process


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_open_process_with_a_key_is_its_only_writer(tmp_path: Path, backend: str) -> None:
    async def main() -> None:
        process = await _open(tmp_path, "sleep", "60")
        assert process.outcome is not None
        assert process.outcome.verdict == "exited"
        stored = sole_writer.open_store(tmp_path).get("k")
        assert stored is not None
        assert stored.lease.free
        assert stored.lease.verdict is not None
        assert stored.lease.verdict.how == "tree-gone"

    anyio.run(main, backend=backend)


def test_a_start_that_fails_is_an_ordinary_failed_start(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await _open(tmp_path, "/nowhere/to/be/found")
        with pytest.raises(ValueError, match="mask"):
            await _open(tmp_path, "true", mask=[9])
        stored = sole_writer.open_store(tmp_path).get("k")
        assert stored is not None
        assert (stored.lease.free, stored.lease.epoch) == (True, 1)

    anyio.run(main)


def test_a_stop_while_it_is_starting_ends_that_start(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.move_on_after(0) as scope:
            await _open(tmp_path, "sleep", "60")
        assert scope.cancelled_caught
        stored = sole_writer.open_store(tmp_path).get("k")
        assert stored is None or stored.lease.free

    anyio.run(main)


def test_a_grant_of_the_callers_own_is_committed_and_stays_the_callers(tmp_path: Path) -> None:
    async def main() -> None:
        grant = acquire("k", state=tmp_path)
        async with lastout.open_process(["sleep", "60"], lease=grant, graces="instant") as process:
            assert process.run == grant.run
            kill(process.keeper, SIGKILL)
        stored = sole_writer.open_store(tmp_path).get("k")
        assert stored is not None
        assert stored.lease.state == "committed"
        assert grant.release(process.outcome).settled

    anyio.run(main)


def test_another_machines_fields_come_back(tmp_path: Path) -> None:
    held = Holder("r", host="elsewhere")
    assert Holder.from_json(held.to_json()) == held
