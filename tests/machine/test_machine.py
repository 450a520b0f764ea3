"""What machine.py is made of; and with a kernel at hand (see docs/how-to/other-kernels.md), all of it."""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lastout_machine", HERE / "machine.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, made)  # its dataclasses look themselves up there
    spec.loader.exec_module(made)
    return made


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio")
def test_cpio_reads_the_archive(machine: ModuleType, tmp_path: Path) -> None:
    packed = gzip.decompress(machine.archive({"init": b"odd", "supervisor": b"x" * 4096}))
    command = ["cpio", "-i", "--quiet", "--make-directories", "--no-absolute-filenames"]
    names = ["init", "supervisor"]
    subprocess.run([*command, *names], input=packed, cwd=tmp_path, check=True)
    assert [(tmp_path / name).stat().st_size for name in names] == [3, 4096]
    assert all(os.access(tmp_path / name, os.X_OK) for name in names)


def test_the_guest_compiles_without_a_warning(tmp_path: Path) -> None:
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, *map(str, sorted(HERE.glob("*.c")))], check=True)


def test_what_the_console_says_is_read_among_other_lines(machine: ModuleType) -> None:
    played = machine.read(
        "\x1b[2JSeaBIOS\r\n\r\nKERNEL 6.1.0 x86_64\r\n"
        '[    1.0] noise\r\nRECORD one {"event":"started"}\r\nRESULT one ok\r\n'
        "SLEPT 8000 ms, of which CLOCK_MONOTONIC saw 60\r\nRESULT two failed: 1 are left\r\nOVER\r\n"
    )
    assert (played.kernel, played.over, played.good) == ("6.1.0 x86_64", True, False)
    assert played.results == {"one": "ok", "two": "failed: 1 are left"}
    assert played.records == {"one": ['{"event":"started"}']}
    assert played.slept_ms == [(8000, 60)]
    assert machine.read("RESULT one ok\nOVER\n").good
    assert not machine.read("RESULT one ok\n").good, "it was cut off"
    assert not machine.read("OVER\n").good, "nothing was played"


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["aarch64", "x86_64"])
def test_every_scene_on_another_kernel(machine: ModuleType, name: str) -> None:
    kernel = os.environ.get(f"LASTOUT_TEST_KERNEL_{name.upper()}")
    if not kernel:
        pytest.skip(f"needs the image of a kernel in LASTOUT_TEST_KERNEL_{name.upper()}")
    try:
        played = machine.play(name, Path(kernel))
    except machine.CannotPlay as error:
        pytest.skip(str(error))
    assert played.good, played.console
    assert len(played.results) == 9
    assert all(
        '"event":"started"' in lines[0] or "contained" in lines[0]
        for lines in played.records.values()
    )
