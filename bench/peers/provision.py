"""Installs the peers that PyPI and npm have, below build/, with the ordinary clients."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PYTHON_PEERS = ("procwarden==0.2.0", "processkit-py==1.5.0")
NODE_PEERS = ("execa@9.6.1",)


def provision(place: Path) -> list[str]:
    """Install what is missing below `place`; returns a line for each thing that cannot be had."""
    problems = []
    place.mkdir(parents=True, exist_ok=True)
    python = place / "python"
    if not (python / "bin" / "processkit").exists():
        problems += run([sys.executable, "-m", "venv", str(python)])
        problems += run([str(python / "bin" / "pip"), "install", "--quiet", *PYTHON_PEERS])
    node = place / "node"
    if shutil.which("npm") and not (node / "node_modules" / "execa").exists():
        node.mkdir(exist_ok=True)
        problems += run(["npm", "install", "--silent", "--prefix", str(node), *NODE_PEERS])
    return problems


def run(command: list[str]) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode == 0:
        return []
    last = (done.stderr or done.stdout).strip().splitlines()[-1:]
    return [f"{' '.join(command[:3])} failed: {last[0] if last else done.returncode}"]
