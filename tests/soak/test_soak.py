"""A sample of `make soak`: its checks hold for a few seconds, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(300)
def test_a_few_seconds_leave_nobody() -> None:
    command = [sys.executable, str(Path(__file__).with_name("soak.py")), "--minutes", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
