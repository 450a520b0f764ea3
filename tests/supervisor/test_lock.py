"""The lock of a lease: held by front and keeper for as long as they live, by nobody else."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from harness import Scene
from harness.freezer import freezer


def is_free(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    return tmp_path / "locks" / "7"


def test_held_while_the_run_lives_and_free_at_its_end(scene: Scene, lock: Path) -> None:
    run = scene.run("root", "--lock", str(lock), "--epoch", "7")
    scene.member("root")
    assert not is_free(lock)
    assert (run.started["epoch"], run.started["lock"]) == (7, str(lock))
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert is_free(lock)
    assert lock.exists(), "a file without a holder means nothing, and nobody deletes it"


def test_busy_is_refused(scene: Scene, lock: Path) -> None:
    first = scene.run("root", "--lock", str(lock), "--epoch", "7")
    scene.member("root")
    second = scene.run("second", "--lock", str(lock), "--epoch", "7")
    second.wait()
    assert second.wait().code == 125
    assert not scene.all("second")
    assert second.event("refused", reason="lock")["message"] in second.error_text()
    first.signal(SIGTERM)
    first.ends(signal=SIGTERM)
    third = scene.run("third exit=0", "--lock", str(lock), "--epoch", "7")
    third.ends(code=0)


def test_a_newer_epoch_is_refused(scene: Scene, lock: Path) -> None:
    (lock.parent / "10").touch()
    (lock.parent / "notes.txt").touch()
    run = scene.run("root", "--lock", str(lock), "--epoch", "9")
    run.ends(code=125)
    assert run.event("refused", reason="epoch")["argv"][1] == "root"
    assert not scene.all("root")
    run = scene.run("root exit=0", "--lock", str(lock.parent / "10"), "--epoch", "10")
    run.ends(code=0)


def test_an_older_epoch_beside_it_is_no_obstacle(scene: Scene, lock: Path) -> None:
    (lock.parent / "6").touch()
    run = scene.run("root exit=0", "--lock", str(lock), "--epoch", "7")
    run.ends(code=0)


def test_neither_root_nor_leftover_inherits_it(scene: Scene, lock: Path) -> None:
    run = scene.run(
        "root [daemon left ignore ]", "--lock", str(lock), "--epoch", "7", "--leftovers", "wait"
    )
    scene.member("root")
    for role in ("root", "left"):
        pid = scene.member(role).pid
        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert str(lock) not in held
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_the_keeper_holds_it_when_the_front_is_killed(scene: Scene, lock: Path) -> None:
    run = scene.run("root term=clean:300:0", "--lock", str(lock), "--epoch", "7")
    root = scene.member("root")
    keeper = run.keeper
    run.signal(SIGKILL)
    run.wait()
    root.wait_note("cleaning")
    assert not is_free(lock)
    keeper.wait_gone()
    assert is_free(lock)


def test_the_front_holds_it_when_the_keeper_is_killed(scene: Scene, lock: Path) -> None:
    run = scene.run(
        "root [daemon left term=clean:300:0 ]", "--lock", str(lock), "--epoch", "7",
        graces=(0.2, 5.0, 5.0),
    )  # fmt: skip
    left = scene.member("left")
    keeper = run.keeper
    keeper.signal(SIGKILL)
    keeper.wait_gone()
    left.wait_note("cleaning")
    assert not is_free(lock)
    run.wait()
    run.nobody_left()
    assert is_free(lock)


def test_refused_before_the_owner_is_looked_at(scene: Scene, lock: Path) -> None:
    holder = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    run = scene.run("root", "--lock", str(lock), "--epoch", "7", "--owner", f"{os.getpid()}:1")
    run.ends(code=125)
    run.event("refused", reason="lock")
    os.close(holder)


def test_a_lock_that_is_no_file(scene: Scene, lock: Path) -> None:
    lock.mkdir()
    run = scene.run("root", "--lock", str(lock), "--epoch", "7")
    run.ends(code=125)
    assert not scene.all("root")


def test_a_lock_behind_a_symbolic_link_is_refused(scene: Scene, lock: Path) -> None:
    (lock.parent / "elsewhere").touch()
    lock.symlink_to("elsewhere")
    run = scene.run("root", "--lock", str(lock), "--epoch", "7")
    run.ends(code=125)


@pytest.mark.root
def test_held_by_the_keeper_that_stays(scene: Scene, lock: Path) -> None:
    with freezer() as cold:
        run = scene.run(
            "root term=exit:0 [ left ignore ]", "--lock", str(lock), "--epoch", "7",
            graces=(0.1, 0.2, 0.3),
        )  # fmt: skip
        left = scene.member("left")
        keeper = run.keeper
        cold.freeze(left.pid)
        run.signal(SIGTERM)
        assert run.wait().code == 1
        assert not is_free(lock), "something of it still lives"
        cold.thaw()
        keeper.wait_gone()
    assert is_free(lock)


def test_an_agents_own_lock_is_free_after_the_stop_though_a_tool_inherited_it(
    scene: Scene, tmp_path: Path
) -> None:
    path = tmp_path / "agent.lock"
    shell = 'exec 9>agent.lock; flock 9; "$0" heir setsid ignore & exec "$0" root stdin=exit:0'
    run = scene.run(["sh", "-c", shell, *scene.program("actor")])
    scene.member("heir")
    scene.member("root")
    assert not is_free(path)
    run.close_stdin()
    run.ends(code=0)
    assert is_free(path)
