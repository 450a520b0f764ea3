"""A cgroup whose run lost front, keeper and guard: found through the record, ended and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import pytest

from harness import Scene
from harness.harm import lose_both
from harness.run import Run
from harness.tiers import below, cgroup_of, needs_cgroup
from lastout.evidence import journal
from lastout.evidence.events import Note
from lastout.recovery import cgroups

pytestmark = [pytest.mark.root, needs_cgroup]

RUDE = "root ignore [ child ignore ] [daemon escapee ignore ]"


def record_of(run: Run) -> str:
    assert run.record is not None
    return str(run.record.path)


def lose_all_three(scene: Scene, run: Run) -> None:
    """The guard first, or it would do its work."""
    process = below(scene, run.front.pid, "lastout-guard")
    run.front.signal(SIGSTOP)
    process.signal(SIGKILL)
    lose_both(run)
    process.wait_gone()


def make(scene: Scene, play: str | list[str] = RUDE) -> Run:
    run = scene.run(play, "--contain", "cgroup")
    scene.member("root")
    assert run.started
    return run


def test_what_lives_in_it_is_ended_and_told_in_the_record(scene: Scene) -> None:
    run = make(scene)
    escapee = scene.member("escapee")
    lose_all_three(scene, run)
    assert escapee.alive(), "the root's death signal does not reach it"
    (left,) = cgroups.find([record_of(run)])
    assert (left.path, left.inode) == (run.started["cgroup"], run.started["cgroup_id"])
    swept = cgroups.sweep(left)
    assert swept.removed, swept.why
    assert swept.killed >= 1
    escapee.wait_gone()
    assert not cgroup_of(run).exists()
    (note,) = (e for e in journal.read(record_of(run)).events if isinstance(e, Note))
    assert note.text == swept.sentence
    assert note.detail["killed"] == swept.killed
    assert list(cgroups.find([record_of(run)])) == [], "nothing is left to do"


def test_cgroups_made_below_go_with_it(scene: Scene) -> None:
    run = make(scene)
    escapee = scene.member("escapee")
    below = cgroup_of(run) / "a" / "b"
    below.mkdir(parents=True)
    (below / "cgroup.procs").write_text(str(escapee.pid))
    lose_all_three(scene, run)
    (left,) = cgroups.find([record_of(run)])
    swept = cgroups.sweep(left)
    assert swept.removed, swept.why
    escapee.wait_gone()
    assert not cgroup_of(run).exists()


def test_an_empty_one_is_removed_without_a_kill(scene: Scene) -> None:
    run = make(scene, "root ignore")
    lose_all_three(scene, run)
    (left,) = cgroups.find([record_of(run)])
    swept = cgroups.sweep(left)
    assert (swept.killed, swept.removed) == (0, True), swept.why
    assert not cgroup_of(run).exists()


@pytest.mark.parametrize("who", ["nobody lost", "front", "keeper"])
def test_a_run_with_a_supervisor_is_its_own(scene: Scene, who: str) -> None:
    run = make(scene)
    run.front, run.keeper, run.root  # noqa: B018  (pinned while they live)
    if who != "nobody lost":
        # Frozen, the other cannot end the run before it was looked at.
        (run.front if who == "keeper" else run.keeper).signal(SIGSTOP)
        run.named(who).signal(SIGKILL)
    assert list(cgroups.find([record_of(run)])) == []
    run.front.signal(SIGKILL)
    run.keeper.signal(SIGKILL)
    run.wait()
    scene.hub.look(lambda: not scene.strangers(), "the guard ends it, and itself")
    assert not cgroup_of(run).exists()


def test_another_cgroup_of_that_name_is_not_touched(scene: Scene) -> None:
    run = make(scene)
    escapee = scene.member("escapee")
    lose_all_three(scene, run)
    path = Path(record_of(run))
    copy = path.with_name("copy.jsonl")
    wanted = run.started["cgroup_id"]
    copy.write_text(path.read_text().replace(f'"cgroup_id":{wanted}', f'"cgroup_id":{wanted + 1}'))
    assert list(cgroups.find([str(copy)])) == []
    other = cgroups.Left(run.started["run"], str(copy), run.started["cgroup"], wanted + 1)
    cgroups.sweep(other)
    assert escapee.alive()
    assert cgroup_of(run).exists()
    (left,) = cgroups.find([str(path)])
    assert cgroups.sweep(left).removed


def test_whoever_asks_from_inside_is_not_ended(scene: Scene) -> None:
    run = make(scene)
    lose_all_three(scene, run)
    (left,) = cgroups.find([record_of(run)])
    home = Path("/proc/self/cgroup").read_text()
    code = (
        "import os, sys\n"
        "from lastout.recovery import cgroups\n"
        "with open(sys.argv[2] + '/cgroup.procs', 'w') as f: f.write(str(os.getpid()))\n"
        "(left,) = cgroups.find([sys.argv[1]])\n"
        "print(cgroups.sweep(left).why)\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code, record_of(run), left.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    assert "asked from inside" in asked.stdout
    assert Path("/proc/self/cgroup").read_text() == home
    assert cgroups.sweep(left).removed


def recover(state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lastout", "recover", "--state", str(state), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_recover_sweeps_what_is_left(scene: Scene, tmp_path: Path) -> None:
    run = make(scene)
    escapee = scene.member("escapee")
    lose_all_three(scene, run)
    name = run.started["run"]
    record = tmp_path / "state" / "runs" / name[:8] / f"{name}.jsonl"
    record.parent.mkdir(parents=True)
    (tmp_path / "state").chmod(0o700)
    shutil.copy(record_of(run), record)

    would = recover(tmp_path / "state", "--dry-run")
    assert f"would end and remove its cgroup {cgroup_of(run)}" in would.stdout, would.stderr
    assert escapee.alive()

    done = recover(tmp_path / "state", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"cgroup": str(cgroup_of(run)), "removed": True}.items() <= found[-1].items()
    assert found[0]["verdict"]["kind"] == "killed"
    escapee.wait_gone()
    assert not os.path.exists(cgroup_of(run))
    again = recover(tmp_path / "state")
    assert (again.returncode, again.stdout) == (0, "nothing to recover\n")
