"""The record: one fact a line, torn by nothing, and never in the way of a stop."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene
from harness.programs import supervisor_binary
from harness.run import between_ms
from harness.tiers import below


def test_it_says_whether_processes_are_held_by_pidfds(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")
    held = any("pidfd" in link for link in links(run.started["keeper"]["pid"]))
    assert run.started["pidfds"] == held, "so it is, of the build for old kernels as well"
    # What is missing for a build is missing for all of it; this kernel's own word is the other half.
    has = run.started["pidfds"] and Path(f"/proc/self/task/{os.getpid()}/children").exists()
    assert run.started["children_files"] == has
    root.tell("exit 0")
    run.ends(code=0)


def links(pid: int) -> list[str]:
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            continue
    return found


def test_every_line_names_run_sender_number_and_time(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]", "--run", "run-7.a_B", "--key", "k 1")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    counts: dict[str, int] = {}
    for event in run.events:
        assert (event["v"], event["run"]) == (1, "run-7.a_B")
        assert event["from"] in ("front", "keeper")
        counts[event["from"]] = counts.get(event["from"], 0) + 1
        assert event["seq"] == counts[event["from"]]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["time"])
    times = [event["boottime_ns"] for event in run.events]
    assert times == sorted(times)
    assert run.started["key"] == "k 1"


def test_started_tells_who_where_and_how(scene: Scene) -> None:
    run = scene.run("root", graces=(0.25, 1.5, 0.75))
    scene.member("root")
    s = run.started
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    pidns = os.stat("/proc/self/ns/pid").st_ino
    assert (s["boot_id"], s["pidns"], s["host"]) == (boot_id, pidns, socket.gethostname())
    assert (s["uid"], s["gid"], s["cwd"]) == (os.getuid(), os.getgid(), str(scene.directory))
    assert s["argv"][1:] == ["root"]
    assert s["exe"] == s["argv"][0]
    assert s["argv_truncated"] is False
    graces = [s[f"{n}_ms"] for n in ("stdin_grace", "term_grace", "observe_bound", "reap_bound")]
    assert graces == [250, 1500, 0, 750]
    assert s["max_stop_ms"] == 2500
    assert (s["stdin_end"], s["leftovers"], s["contain"]) == ("stop", "stop", "subreaper")
    assert (s["key"], s["epoch"], s["lock"], s["timeout_ms"]) == (None, None, None, 0)
    assert (s["owner_watch"], s["owner"], s["parent"]) == ("parent", s["parent"], s["owner"])
    assert s["owner"]["pid"] == os.getpid()
    assert s["terminal"] == 1
    assert s["inherited_children"] == 0
    for who in ("front", "keeper", "root", "owner"):
        assert s[who]["start"] > 0
        assert s[who]["inode"] > 0 or not (s["pidfds"] and _has_pidfs())
    assert len({s[who]["pid"] for who in ("front", "keeper", "root")}) == 3


def _has_pidfs() -> bool:
    fd = os.pidfd_open(os.getpid())
    try:
        return os.fstat(fd).st_ino > 10_000 or os.fstat(fd).st_ino != 0
    finally:
        os.close(fd)


def test_named_arguments_are_masked(scene: Scene) -> None:
    run = scene.run(
        ["true", "--token=secret1", "secret2", "open"], "--mask", "1", "--mask", "2", "--mask", "2"
    )
    run.ends(code=0)
    assert run.started["argv"] == ["true", "--token=***", "***", "open"]
    assert b"secret" not in run.record.path.read_bytes()


def test_masked_arguments_are_not_in_our_own_command_lines(scene: Scene) -> None:
    run = scene.run("root", "--mask", "0")
    scene.member("root")
    for who in ("front", "keeper"):
        path = Path(f"/proc/{run.started[who]['pid']}/cmdline")
        run.hub.look(lambda path=path: b"actor" not in path.read_bytes(), f"{who} forgets them")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_long_command_line_is_cut_and_says_so(scene: Scene) -> None:
    run = scene.run(["true", *(["x" * 1000] * 20)])
    run.ends(code=0)
    assert run.started["argv_truncated"] is True
    assert len(run.started["argv"]) < 21
    assert sum(map(len, run.started["argv"])) <= 8192


def test_bytes_that_are_no_text_are_still_json(scene: Scene) -> None:
    run = scene.run(["true", os.fsdecode(b"\xff\x00"[:1] + b'"\\\n\x1f\xc3('), "é☃"])
    run.ends(code=0)
    argv = run.started["argv"]
    assert argv[2] == "é☃"
    assert argv[1].endswith("(")
    assert '"\\\n\x1f' in argv[1]


def test_the_file_is_private_and_appended_to(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    os.umask(os.umask(0))
    run = scene.run("root exit=0", record=path)
    run.ends(code=0)
    assert path.stat().st_mode & 0o777 == 0o600
    first = path.read_bytes()
    again = scene.run("root exit=0", "--record", str(path), record=False)
    again.ends(code=0)
    assert path.read_bytes().startswith(first)
    assert len(path.read_bytes()) > len(first)


def test_no_record_and_no_control_is_fine(scene: Scene) -> None:
    run = scene.run("root [daemon left ignore ]", record=False)
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_line_reaches_the_file_while_the_run_goes_on(scene: Scene) -> None:
    run = scene.run("root note=USR1")
    root = scene.member("root")
    run.event("started")
    run.signal(10)  # type: ignore[arg-type]
    run.event("signalled", signal="USR1")
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


# ---- disks that fail ------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "lastout-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs to mount a tmpfs")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


@pytest.mark.root
def test_a_full_disk_delays_no_stop(scene: Scene, small_disk: Path) -> None:
    run = scene.run(
        "root ignore [daemon left ignore ]", record=small_disk / "r.jsonl", control=True
    )
    scene.member("root")
    run.event("started")
    fill(small_disk / "filler")
    for _ in range(40):
        run.signal(10)  # type: ignore[arg-type]
        run.command(cmd="signal", name="WINCH")
    run.signal(SIGTERM)
    run.wait()
    run.nobody_left()
    asked = run.answer("signalled", signal="TERM")
    assert between_ms(asked, run.answer("signalled", signal="KILL")) < 2000
    run.answer("tree-gone")


@pytest.mark.root
def test_after_a_full_disk_the_gap_is_named_and_lines_stay_whole(
    scene: Scene, small_disk: Path
) -> None:
    run = scene.run("root note=WINCH", record=small_disk / "r.jsonl", control=True)
    root = scene.member("root")
    run.event("started")
    filler = small_disk / "filler"
    fill(filler)
    for n in range(60):
        run.command(cmd="signal", name="WINCH")
        scene.until(lambda n=n: root.arrivals(28) > n, "WINCH")  # type: ignore[misc]
        run.answer("signalled")
    filler.unlink()
    root.tell("exit 0")
    run.ends(code=0)
    whole = run.events
    assert whole[-1]["event"] == "tree-gone", "after the gap it goes on"
    [dropped] = [e for e in whole if e["event"] == "dropped"]
    assert (dropped["where"], dropped["lines"] > 0) == ("record", True)
    seen = {event["seq"] for event in whole if event["from"] == "keeper"}
    missing = set(range(1, max(seen) + 1)) - seen
    assert len(missing) == dropped["lines"], "no line hangs on the end of a torn one"
    assert len(run.record.torn) <= 1, "a line cut by the full disk ends with a newline of its own"


class Disk:
    """A file system of its own that can be frozen."""

    def __init__(self, path: Path) -> None:
        self.path, self.frozen = path, False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "-f", str(self.path)], check=True)
        self.frozen = True

    def thaw(self) -> None:
        if self.frozen:
            subprocess.run(["fsfreeze", "-u", str(self.path)], check=True)
        self.frozen = False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))):
        pytest.skip("needs mkfs.ext4 and fsfreeze")
    image, path = tmp_path / "image", tmp_path / "frozen"
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mount = subprocess.run(["mount", "-o", "loop", str(image), str(path)], check=False)
    if mount.returncode != 0:
        pytest.skip("needs to mount a loop device")
    made = Disk(path)
    try:
        yield made
    finally:
        made.thaw()
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.root
def test_a_frozen_disk_delays_no_stop(scene: Scene, disk: Disk) -> None:
    run = scene.run("root ignore [daemon left ignore ]", record=disk.path / "r.jsonl", control=True)
    scene.member("root")
    run.event("started")
    keeper = run.keeper
    disk.freeze()
    run.signal(SIGTERM)
    ended = run.wait(15, written=False)
    assert ended.signal == SIGTERM
    assert keeper.gone
    assert scene.member("left").gone
    asked = run.answer("signalled", signal="TERM")
    assert between_ms(asked, run.answer("signalled", signal="KILL")) < 2000
    run.answer("tree-gone")
    disk.thaw()
    # What waited for the disk writes the rest and ends.
    scene.hub.look(lambda: not scene.strangers(), "the writer has ended")
    run.event("tree-gone")


@pytest.mark.root
def test_who_writes_is_continued_at_the_end(scene: Scene, disk: Disk) -> None:
    run = scene.run("root note=USR2", record=disk.path / "r.jsonl", control=True)
    scene.member("root")
    run.event("started")
    disk.freeze()
    run.command(cmd="signal", name="USR2")
    scribe = below(scene, run.front.pid, "lastout-scribe")
    scribe.signal(SIGSTOP)  # and it stops as soon as its write is over
    disk.thaw()
    scribe.wait_state("T")
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    assert run.events[-1]["event"] == "tree-gone"


def test_the_keeper_writes_the_record_when_the_front_is_lost(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]")
    scene.member("root")
    keeper = run.keeper
    run.signal(SIGKILL)
    keeper.wait_gone()
    run.wait()
    assert run.events[-1]["event"] == "tree-gone"
    assert [e["seq"] for e in run.events if e["from"] == "keeper"] == list(
        range(1, 1 + len([e for e in run.events if e["from"] == "keeper"]))
    )


def test_a_record_without_an_end_means_not_known(scene: Scene) -> None:
    run = scene.run("root [daemon left ignore ]", graces=(0.2, 20.0, 5.0))
    scene.member("root")
    left, front, keeper = scene.member("left"), run.front, run.keeper
    keeper.signal(SIGKILL)
    front.signal(SIGKILL)
    run.wait()
    run.root.wait_gone()
    keeper.wait_gone()
    assert run.events[-1]["event"] not in ("tree-gone", "tree-unproven", "refused", "failed")
    left.dismiss()


def test_version_of_the_record_is_that_of_the_program(scene: Scene) -> None:
    run = scene.run("root exit=0")
    run.ends(code=0)
    told = subprocess.run(
        [supervisor_binary(), "--version"], capture_output=True, text=True, check=True
    )
    assert run.started["version"] in told.stdout
