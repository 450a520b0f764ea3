"""The wheels of a release: the same bytes twice, for two machines, with programs that run there."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lastout import __version__ as VERSION  # noqa: N812

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ziglang") is None
        or importlib.util.find_spec("hatchling") is None,
        reason="ziglang is not installed (pip install --group release)",
    ),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made of a commit"),
    pytest.mark.timeout(1800),  # the first time, zig compiles its musl
]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("release") / "dist"
    command = [sys.executable, str(ROOT / "tools" / "wheels.py"), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # it compares two builds by itself
    return output


def unpack(dist: Path, machine: str, folder: Path) -> Path:
    name = f"lastout-*-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl"
    (wheel,) = dist.glob(name)
    with zipfile.ZipFile(wheel) as archive:
        program = Path(archive.extract("lastout/_bin/lastout-supervisor", folder))
    program.chmod(0o755)
    return program


def test_a_wheel_for_each_machine_and_the_source(dist: Path) -> None:
    assert len(list(dist.glob("*.whl"))) == 2
    assert len(list(dist.glob("*.tar.gz"))) == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86_64 machine")
def test_the_x86_64_program_runs_a_command(dist: Path, tmp_path: Path) -> None:
    program = unpack(dist, "x86_64", tmp_path)
    command = [program, "--stdin-end", "ignore", "--", "sh", "-c", "exit 3"]
    assert subprocess.run(command, check=False).returncode == 3


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (qemu-user)")
def test_the_aarch64_program_runs_under_emulation(dist: Path, tmp_path: Path) -> None:
    program = unpack(dist, "aarch64", tmp_path)
    told = subprocess.run(
        ["qemu-aarch64", program, "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"lastout-supervisor {VERSION}\n"
    command = ["qemu-aarch64", program, "--stdin-end", "ignore", "--", "sh", "-c", "exit 3"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "PR_SET_CHILD_SUBREAPER: Invalid argument" in ran.stderr:
        # Said in one line, and nothing was started: that is what an emulator without it must see.
        assert ran.returncode == 125
        pytest.skip(
            "this qemu-user knows no PR_SET_CHILD_SUBREAPER: no run can be supervised in it"
        )
    assert ran.returncode == 3, ran.stderr
