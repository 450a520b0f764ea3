"""The kernel's half of a lease: fences, probes, and a race that neither side can lose."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from signal import SIGTERM

import pytest

from harness import Scene
from lastout.leases import locks
from lastout.leases.locks import LockState


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return locks.directory(tmp_path, "key")


def hold(folder: str, epoch: int) -> int:
    fd = os.open(os.path.join(folder, str(epoch)), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def test_every_key_has_a_directory_of_its_own(tmp_path: Path) -> None:
    keys = ["a", "A", "a/", "../a", "", "ä", "\udcff", "x" * 10_000]
    places = {locks.directory(tmp_path, key) for key in keys}
    assert len(places) == len(keys)
    assert all(Path(place).parent == tmp_path / "locks" for place in places)
    assert all(len(Path(place).name) == 32 for place in places)


def test_a_lock_is_held_or_free_whatever_its_file_says(folder: str) -> None:
    assert locks.epochs(folder) == []
    assert locks.probe(folder, 1) is LockState.FREE, "no file, no holder"
    locks.create(folder, 1, {"run": "r"})
    assert locks.probe(folder, 1) is LockState.FREE
    fd = hold(folder, 1)
    assert locks.probe(folder, 1) is LockState.HELD
    os.close(fd)
    assert locks.probe(folder, 1) is LockState.FREE
    assert locks.contents(folder, 1) == {"run": "r"}


def test_a_fence_does_not_erase_what_a_granter_wrote(folder: str) -> None:
    locks.create(folder, 2, {"run": "r"})
    locks.create(folder, 2, {})
    assert locks.contents(folder, 2) == {"run": "r"}
    locks.create(folder, 3, {})
    assert locks.contents(folder, 3) == {}
    assert locks.contents(folder, 99) == {}
    Path(folder, "4").write_text("[1]")
    assert locks.contents(folder, 4) == {}


def test_a_file_that_is_no_lock_is_unknown(folder: str, tmp_path: Path) -> None:
    locks.create(folder, 1, {})
    os.symlink(tmp_path, os.path.join(folder, "2"))
    os.mkdir(os.path.join(folder, "3"))
    Path(folder, "notes.txt").touch()
    assert locks.epochs(folder) == [1, 2, 3]
    assert locks.probe(folder, 2) is LockState.UNKNOWN
    assert locks.probe(folder, 3) is LockState.UNKNOWN


def test_tidying_takes_only_free_files_that_have_a_newer_one(folder: str) -> None:
    for epoch in (1, 2, 3, 4):
        locks.create(folder, epoch, {})
    fd = hold(folder, 2)
    locks.tidy(folder, [1, 2, 3, 4], newest=4)
    os.close(fd)
    assert locks.epochs(folder) == [2, 4]


def test_a_late_front_sees_the_newer_file_or_is_seen_by_its_granter(
    scene: Scene, folder: str
) -> None:
    """The two orders of the race: front first, then granter; granter first, then front."""
    old = locks.create(folder, 1, {"run": "old"})
    run = scene.run("root", "--lock", old, "--epoch", "1")
    scene.member("root")
    locks.create(folder, 2, {})
    assert locks.probe(folder, 1) is LockState.HELD
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert locks.probe(folder, 1) is LockState.FREE
    late = scene.run("late", "--lock", old, "--epoch", "1")
    late.ends(code=125)
    late.event("refused", reason="epoch")
    assert not scene.all("late")


def test_a_late_front_whose_file_was_tidied_is_refused_too(scene: Scene, folder: str) -> None:
    old = locks.create(folder, 1, {})
    locks.create(folder, 2, {})
    locks.tidy(folder, [1], newest=2)
    assert locks.epochs(folder) == [2]
    late = scene.run("late", "--lock", old, "--epoch", "1")
    late.ends(code=125)
    late.event("refused", reason="epoch")


def test_the_keeper_notes_who_holds_it_before_the_root_is_executed(
    scene: Scene, folder: str
) -> None:
    path = locks.create(folder, 1, {"run": "r"})
    run = scene.run("root exit=0", "--lock", path, "--epoch", "1")
    run.ends(code=0)
    lines = Path(path).read_text().splitlines()
    assert len(lines) == 2
    assert f'"pid":{run.started["keeper"]["pid"]},' in lines[1]
    assert f'"pid":{run.started["front"]["pid"]},' in lines[1]


def test_an_unwritable_note_starts_nothing(scene: Scene, folder: str) -> None:
    """Without the note nobody could tell later whether anything was executed."""
    import resource

    path = locks.create(folder, 1, {})
    Path(path).write_bytes(b"x" * 4096)
    # A limit on the file's size, for the supervisor alone: the note would go beyond it.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        run = scene.run("root", "--lock", path, "--epoch", "1")
        run.ends(code=125)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    run.event("failed", reason="setup")
    assert not scene.all("root")
