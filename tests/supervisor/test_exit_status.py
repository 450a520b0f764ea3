"""The status that the caller sees, and the record that says what really happened."""

from __future__ import annotations

import os
import time
from pathlib import Path
from signal import SIGABRT, SIGKILL, SIGTERM

import pytest

from harness import Scene


@pytest.mark.parametrize("code", [0, 1, 7, 124, 126, 137, 143, 255])
def test_an_exit_code_is_mirrored_and_never_read_as_a_signal(scene: Scene, code: int) -> None:
    run = scene.run(f"root exit={code}")
    run.ends(code=code)
    exited = run.event("root-exited")
    assert (exited["status"], exited["code"], exited["signal"]) == (code << 8, code, None)
    assert not run.all("stop", trigger="timeout")


@pytest.mark.parametrize("name", ["KILL", "TERM", "ABRT", "SEGV", "INT", "USR1", "PIPE"])
def test_a_death_by_signal_is_mirrored(scene: Scene, name: str) -> None:
    import signal

    number = getattr(signal, f"SIG{name}")
    run = scene.run(f"root raise={name}", "--rlimit", "CORE=0:0")
    ended = run.ends(signal=number)
    assert not os.WCOREDUMP(ended.raw), "no second core: that one was the root's"
    exited = run.event("root-exited")
    assert (exited["code"], exited["signal"], exited["core"]) == (None, name, False)
    assert not run.all("signalled"), "nobody of ours sent it"


def test_root_exited_is_told_before_reaped(scene: Scene) -> None:
    run = scene.run("root exit=3")
    run.ends(code=3)
    names = [event["event"] for event in run.events]
    assert names == ["started", "root-exited", "reaped", "tree-gone"]
    reaped = run.event("reaped", who="root")
    assert (reaped["pid"], reaped["status"]) == (run.started["root"]["pid"], 3 << 8)
    assert reaped["max_rss_kib"] > 0


def test_stopped_by_a_signal_it_dies_by_that_signal_whatever_the_root_says(scene: Scene) -> None:
    run = scene.run("root term=exit:17")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["code"] == 17, "the record has it"


def test_a_root_that_ended_before_the_signal_is_mirrored(scene: Scene) -> None:
    run = scene.run("root [daemon left term=clean:300:0 ]", graces=(0.2, 5.0, 5.0))
    left = scene.member("left")
    scene.member("root").tell("exit 6")
    left.wait_note("cleaning")
    run.signal(SIGTERM)
    run.ends(code=6)


def test_stopped_by_request_the_roots_status_is_mirrored(scene: Scene) -> None:
    run = scene.run("root term=exit:17", control=True)
    scene.member("root")
    run.command(cmd="stop")
    run.ends(code=17)


def test_killed_after_a_request_the_death_is_mirrored(scene: Scene) -> None:
    run = scene.run("root ignore", control=True)
    scene.member("root")
    run.command(cmd="stop")
    run.ends(signal=SIGKILL)


def test_timeout_is_124_after_a_polite_stop(scene: Scene) -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    run = scene.run("root term=clean:100:0 [daemon left ignore ]", "--timeout", "0.4")
    root = scene.member("root")
    run.ends(code=124)
    stop = run.event("stop", trigger="timeout")
    # From the supervisor's own start; `started` may be written late.
    assert stop["boottime_ns"] - before >= 400e6
    assert "cleaned" in root.notes
    assert run.started["timeout_ms"] == 400


def test_a_run_that_ends_before_its_timeout(scene: Scene) -> None:
    run = scene.run("root exit=5", "--timeout", "60")
    run.ends(code=5)


def test_what_is_not_there_is_127(scene: Scene) -> None:
    for name in ("/nowhere/at/all", "no-such-command-anywhere"):
        # A directory of PATH that cannot be searched would make it "permission denied".
        run = scene.run([name], env={"PATH": "/usr/bin:/bin"})
        run.ends(code=127)
        assert run.event("failed")["errno"] == 2
        assert name in run.error_text()
        assert len(run.error_text().splitlines()) == 1


def test_what_was_not_started_is_told_with_its_command_and_place(scene: Scene) -> None:
    missing = scene.run(["no-such-command", "a=b"], "--mask", "1")
    missing.ends(code=127)
    told = missing.event("failed", reason="exec")
    assert (told["argv"], told["argv_truncated"]) == (["no-such-command", "a=***"], False)
    assert (told["cwd"], told["host"]) == (str(scene.directory), os.uname().nodename)
    assert told["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    nowhere = scene.run("root", "--chdir", "/nowhere/at all")
    nowhere.ends(code=125)
    told = nowhere.event("failed", reason="setup")
    assert told["cwd"] == "/nowhere/at all"
    assert told["message"] == "cannot enter '/nowhere/at all': No such file or directory"
    assert told["argv"][1] == "root"


def test_what_cannot_be_executed_is_126(scene: Scene, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF, but no")
    broken.chmod(0o755)
    for path in (plain, tmp_path):
        run = scene.run([str(path)])
        run.ends(code=126)
        assert run.event("failed", reason="exec")["errno"] == 13
        assert len(run.error_text().splitlines()) == 1


def test_a_missing_interpreter_is_not_called_a_crash(scene: Scene, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    run = scene.run([str(script)])
    run.ends(code=127)


def test_a_script_without_a_first_line_runs_in_the_shell(scene: Scene, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo from $1\nexit 11\n")
    script.chmod(0o755)
    run = scene.run([str(script), "sh"])
    run.ends(code=11)
    assert run.output_text() == "from sh\n"


def test_an_abort_with_a_core_says_so(scene: Scene) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith("|") or os.getuid() != 0:
        pytest.skip("needs core files in the working directory")
    run = scene.run("root raise=ABRT", "--rlimit", "CORE=1000000:unlimited")
    run.ends(signal=SIGABRT)
    core = run.event("root-exited")["core"]
    assert core == bool(list(scene.directory.glob("core*")))
