"""CPython's own suite for subprocess, run against `lastout.Popen`: what fails is known by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Each with its reason in docs/reference/popen-differences.md, and nothing else may fail.
EXPECTED = {
    "POSIXProcessTestCase.test_restore_signals",
    "POSIXProcessTestCase.test_stopped",
}

# Less than the smallest suite that was looked at (3.12 has 300 tests, 3.11 has 331).
FEWEST = 250


@pytest.mark.timeout(600)
def test_only_the_known_differences_fail(tmp_path: Path) -> None:
    runner = Path(__file__).with_name("run_cpython_suite.py")
    done = subprocess.run(
        [sys.executable, str(runner), str(tmp_path / "state")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    if "missing" in told:
        pytest.skip(told["missing"])
    assert set(told["failed"]) == EXPECTED, json.dumps(told["failed"], indent=1)
    assert told["ran"] > FEWEST
    assert len(told["passed"]) > FEWEST - len(told["skipped"])


def test_the_document_has_every_expected_difference() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "popen-differences.md"
    text = page.read_text()
    assert [name for name in EXPECTED if name.rpartition(".")[2] not in text] == []
