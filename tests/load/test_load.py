"""A sample of `make load`: it does what it says, and a piece of the suite passes under it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.tiers import can_make_cgroups, own_cgroup

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SAMPLE = [
    "tests/supervisor/test_front_keeper.py",
]


def load(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "load.py"), "--cores", "1", "--minutes", "2", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.quiet  # its own tests are stopped, not this one
@pytest.mark.timeout(240)
def test_a_piece_of_the_suite_passes_under_load() -> None:
    done = load("--", "-p", "no:cacheprovider", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    stops = re.search(r"was stopped (\d+) times", done.stdout)
    assert stops is not None, done.stdout + done.stderr
    assert int(stops[1]) >= 10, "several a second"


@pytest.mark.timeout(120)
def test_what_fails_fails_and_its_place_is_removed(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import os, pathlib\n"
        "def test_it():\n"
        "    assert os.nice(0) >= 10\n"
        "    raise AssertionError('seen in' + pathlib.Path('/proc/self/cgroup').read_text())\n"
    )
    done = load("--", "-p", "no:cacheprovider", "-c", "/dev/null", str(test))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "seen in" in done.stdout
    here = own_cgroup()
    if here is not None and can_make_cgroups():
        # This test may itself be part of such a suite, and its place within that one's.
        [place] = set(re.findall(r"(?:/load-\d+)*/(load-\d+)", done.stdout))
        assert not (here / place).exists()
