"""The store's file: durable, migrated, read-only, full, damaged, lost, forked."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastout.leases import filesystem, model, sqlite, sqlite_file
from lastout.leases.model import Holder
from lastout.leases.refusals import Held, StoreDamaged, StoreReadOnly, StoreUnusable
from lastout.leases.sqlite import SqliteStore
from lastout.leases.store import Stored
from lastout.verdict import Verdict

HOLDER = Holder("run-1", record="/r")
GONE = Verdict("exited", "tree-gone", True)


def reserve(store: SqliteStore, key: str = "k") -> int:
    def step(found: Stored | None, at: model.Moment) -> model.Change:
        lease = found.lease if found else None
        return model.reserve(lease, key, HOLDER, at, above=store.floor())

    return store.change(key, step).epoch


def settle(store: SqliteStore, epoch: int, key: str = "k") -> None:
    store.change(key, lambda found, at: model.settle(found and found.lease, epoch, GONE, at))


def cycle(store: SqliteStore, key: str = "k") -> int:
    epoch = reserve(store, key)
    settle(store, epoch, key)
    return epoch


def test_it_is_durable_and_private(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "state") as store:
        cycle(store)
        assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    file = tmp_path / "state" / "leases.sqlite3"
    assert file.stat().st_mode & 0o77 == 0
    assert (tmp_path / "state").stat().st_mode & 0o77 == 0
    with SqliteStore(tmp_path / "state") as store:
        assert cycle(store) == 2


def test_history_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "KEPT", 10)
    with SqliteStore(tmp_path) as store:
        reserve(store, "other")
        for _ in range(130):
            last = cycle(store)
        entries = store.history("k", limit=1000)
        assert 10 <= len(entries) <= 10 + 2 * 64
        assert entries[-1].epoch == last
        assert len(store.history("other")) == 1


def test_what_was_granted_survives_a_kill_in_the_next_instruction(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from lastout.leases import model\n"
        "from lastout.leases.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "held = model.Holder('r')\n"
        "store.change('k', lambda found, at: model.reserve(None, 'k', held, at))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with SqliteStore(tmp_path) as store, pytest.raises(Held):
        reserve(store)


def test_a_newer_schema_is_listed_and_never_changed(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        reserve(store)
    file = tmp_path / "leases.sqlite3"
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = file.read_bytes()
    with SqliteStore(tmp_path) as store:
        assert [lease.key for lease in store.leases()] == ["k"]
        with pytest.raises(StoreReadOnly, match=r"schema 99.*upgrade"):
            reserve(store, "other")
        with pytest.raises(StoreReadOnly):
            settle(store, 1)
        with pytest.raises(StoreReadOnly):
            store.wait_begin("k", None)  # type: ignore[arg-type]
    assert file.read_bytes() == before


def test_an_epoch_cannot_fall_whatever_the_program_does(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        reserve(store)
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            store._db.execute("UPDATE lease SET epoch = 0")


DAMAGES = {
    "no database at all": lambda data: b"this was a database once" * 400,
    "zeros in the middle": lambda data: data[:4096] + bytes(len(data) - 4096),
    "a broken header": lambda data: b"SQLITE format 9\0" + data[16:],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
def test_a_damaged_file_is_kept_and_the_backup_takes_its_place(
    tmp_path: Path, damage: str, when: str
) -> None:
    file = tmp_path / "leases.sqlite3"
    with SqliteStore(tmp_path) as store:
        known = cycle(store, "known")
        held = reserve(store, "held")
        sqlite_file.back_up(store.state, store._db)
        for _ in range(3):
            last = cycle(store, "known")  # granted after the backup: it cannot know
        forgotten = cycle(store, "forgotten")
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store = SqliteStore(tmp_path) if when == "while it is open" else None
    broken = DAMAGES[damage](file.read_bytes())
    with open(file, "r+b") as handle:
        handle.write(broken)
    broken = file.read_bytes()
    if store is not None:
        # What SQLite still has in its memory is not the file; the next one sees the damage first.
        store._db.execute("PRAGMA shrink_memory")
    other = SqliteStore(tmp_path)
    kept = list(tmp_path.glob("leases.sqlite3.damaged.*"))
    assert [one.read_bytes() for one in kept if not one.name.endswith(("-wal", "-shm"))] == [broken]
    after = reserve(other, "known")
    assert after > last > known
    assert reserve(other, "forgotten") > forgotten
    found = other.get("held")
    assert found is not None
    assert found.lease.state == "reserved", "who held a key still holds it"
    assert found.lease.epoch == held + sqlite_file.RAISE
    assert found.doubt == held
    if store is not None:
        with pytest.raises(Held):
            reserve(store, "known")  # it noticed that its file is not the store any more
        store.close()
    other.close()


def test_damage_without_a_backup_is_said_and_nothing_is_touched(tmp_path: Path) -> None:
    file = tmp_path / "leases.sqlite3"
    file.write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreDamaged, match="move the file away"):
        SqliteStore(tmp_path)
    assert file.read_bytes() == b"rubbish" * 1000


def test_a_damaged_backup_is_not_used(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        reserve(store)
    (tmp_path / "leases.sqlite3.backup").write_bytes(b"rubbish" * 1000)
    (tmp_path / "leases.sqlite3").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreDamaged):
        SqliteStore(tmp_path)


def test_a_store_that_was_removed_begins_anew_in_every_process_that_had_it_open(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path) as store:
        reserve(store)
        for name in ("leases.sqlite3", "leases.sqlite3-wal", "leases.sqlite3-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        assert reserve(store) == 1, "the lock files know what was granted; this store does not"
        with SqliteStore(tmp_path) as other, pytest.raises(Held):
            reserve(other)


def test_a_child_after_fork_has_a_connection_of_its_own(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        reserve(store, "parent")
        pid = os.fork()
        if pid == 0:
            try:
                code = 0 if reserve(store, "child") == 1 else 3
            except BaseException:
                code = 4
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert [lease.key for lease in store.leases()] == ["child", "parent"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of our own, 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=False)
    if done.returncode:
        pytest.skip("cannot mount a file system here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.root
def test_a_full_file_system_is_an_error_and_nothing_is_granted(small: Path) -> None:
    with SqliteStore(small) as store:
        first = cycle(store)
        with open(small / "fill", "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        with pytest.raises(StoreUnusable, match="full"):
            for _ in range(10_000):
                cycle(store)  # the log has some room left in its last page
        granted = store.get("k")
        (small / "fill").unlink()
        assert granted is not None
        epoch = granted.lease.epoch
        if not granted.lease.free:
            settle(store, epoch)
        assert cycle(store) == epoch + 1 > first


@pytest.mark.root
def test_a_read_only_directory_is_named(small: Path) -> None:
    with SqliteStore(small) as store:
        cycle(store)
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    with pytest.raises(StoreUnusable, match=str(small)):
        reserve(SqliteStore(small))


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 22 0:41 / /mnt/with\\040blank rw - fuse.sshfs host: rw
32 22 0:42 / /homely rw - xfs /dev/vdb rw
33 22 0:43 / /mnt/v rw - 9p host rw
34 33 0:44 / /mnt/v/local rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/.local/state", "nfs4"),
        ("/homely/me", "xfs"),
        ("/mnt/with blank/x", "fuse.sshfs"),
        ("/mnt/v/x", "9p"),
        ("/mnt/v/local/x", "tmpfs"),
    ],
)
def test_the_file_system_of_a_path(tmp_path: Path, path: str, name: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert filesystem.type_of(path, str(mounts)) == name


@pytest.mark.parametrize("name", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs", "virtiofs", "ceph"])
def test_a_file_system_without_locks_that_hold_is_refused_by_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "type_of", lambda path: name)
    folder = tmp_path / name
    folder.mkdir()
    with pytest.raises(StoreUnusable, match=name.replace(".", r"\.")):
        SqliteStore(folder)
    assert list(folder.iterdir()) == []
