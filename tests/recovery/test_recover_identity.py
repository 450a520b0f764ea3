"""Recovery of who only looks like the run: after a reboot, on a recycled pid, in another version's record."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from signal import SIGTERM
from typing import Any

import pytest

from harness import Scene
from harness.harm import lose_both
from harness.recovering import case_of, edited, reap, told
from lastout.recovery import case as cases
from lastout.recovery.act import recover
from lastout.recovery.case import Asker

RUDE = "root ignore [ child ignore ] [daemon escapee ignore ]"
PERSON = Asker(stop=True)


def test_after_a_reboot_everything_is_gone_whatever_has_these_pids_now(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")

    def other_boot(lines: list[dict[str, Any]]) -> None:
        lines[0]["boot_id"] = "00000000-0000-0000-0000-000000000000"

    result = recover(edited(run, other_boot), asker=PERSON)
    assert told(result) == ("exited", "other-boot")
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.parametrize("kernel", ["with inodes", "without"])
def test_a_pid_that_an_innocent_process_has_now(scene: Scene, kernel: str) -> None:
    run = scene.run("root")
    scene.member("root")
    pid = run.root.pid
    while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < (
        run.started["root"]["start"] + 2
    ):
        pass  # within one clock tick only the inode could tell

    def no_inodes(lines: list[dict[str, Any]]) -> None:
        for name in ("front", "keeper", "root"):
            lines[0][name]["inode"] = 0

    case = case_of(run) if kernel == "with inodes" else edited(run, no_inodes)
    lose_both(run)
    reap(pid)  # ours, now that both supervisors are gone: its number is free
    taker = subprocess.Popen(
        [*scene.program("take_pid", str(pid)), *scene.program("actor", "stranger")],
        env=scene.environment(),
    )
    scene.until(lambda: scene.all("stranger") or taker.poll() is not None, "the number is taken")
    if taker.poll() == 77:
        pytest.skip("the number could not be had")
    innocent = scene.member("stranger")
    assert innocent.pid == pid
    scene.expect(innocent)
    result = recover(case, asker=PERSON)
    assert told(result) == ("killed", "root-gone")
    assert innocent.alive()
    innocent.dismiss()
    taker.wait()


OLDER = {"v", "event", "run", "from", "seq", "boottime_ns", "time", "front", "keeper", "root"}


def older(lines: list[dict[str, Any]]) -> None:
    kept = OLDER | {"max_stop_ms", "boot_id", "pidns"}
    lines[:] = [{name: line[name] for name in line if name in kept} for line in lines[:1]]


def newer(lines: list[dict[str, Any]]) -> None:
    lines[0] |= {"v": 7, "unheard_of": {"a": 1}, "root": {**lines[0]["root"], "color": "red"}}
    lines.insert(0, {**lines[0], "event": "unheard-of", "from": "front", "seq": 90})


@pytest.mark.parametrize("version", [older, newer])
def test_a_record_of_another_version_is_waited_for_by_its_own_bound(
    scene: Scene, version: Callable[[list[dict[str, Any]]], None]
) -> None:
    run = scene.run("root ignore", graces=(0.1, 0.5, 5))
    scene.member("root")
    case = edited(run, version)
    assert cases.read(case).max_stop == pytest.approx(5.6)
    result = recover(case, asker=PERSON)
    # This copy never hears of the end: the processes do.
    assert told(result) == ("killed", "root-gone")
    run.process.wait_gone()
    run.event("tree-gone")
