"""Every way of installing brings a supervisor that runs, or says in one line why it cannot."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from lastout import __version__ as VERSION  # noqa: N812

ROOT = Path(__file__).parents[2]
PARTS = (
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "src/lastout/_version.py",
    "native",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build needs of the project, without anything that was built before."""
    for part in PARTS:
        target = tmp_path / "checkout" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, target)
    return tmp_path / "checkout"


def build(kind: str, source: Path, output: Path, **env: str) -> Path:
    """Call hatchling as pip and uv do; `kind` is wheel, editable or sdist."""
    pytest.importorskip("hatchling")
    output.mkdir(exist_ok=True)
    code = f"import sys, hatchling.build as b; print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(output)],
        cwd=source,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return output / done.stdout.split()[-1]


def says_its_version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def unpack_program(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo("lastout/_bin/lastout-supervisor")
        program = Path(archive.extract(info, folder))
    mode = info.external_attr >> 16
    assert mode & stat.S_IXUSR, "an installer would leave it without its execute bit"
    program.chmod(mode)
    return program


def test_a_wheel_carries_a_program_that_runs(checkout: Path, tmp_path: Path) -> None:
    wheel = build("wheel", checkout, tmp_path / "dist")
    assert wheel.name.startswith(f"lastout-{VERSION}-py3-none-")
    assert not wheel.name.endswith("-any.whl")
    assert says_its_version(unpack_program(wheel, tmp_path)) == VERSION
    assert not (checkout / "src/lastout/_bin").exists(), "a wheel's build changes no source tree"


def test_a_dynamic_program_makes_no_wheel_for_other_machines(
    checkout: Path, tmp_path: Path
) -> None:
    wheel = build("wheel", checkout, tmp_path / "dist", LASTOUT_LINK="dynamic")
    assert "-py3-none-linux_" in wheel.name
    assert says_its_version(unpack_program(wheel, tmp_path)) == VERSION


def test_an_editable_installation_finds_its_program_in_the_work_tree(
    checkout: Path, tmp_path: Path
) -> None:
    build("editable", checkout, tmp_path / "dist")
    assert says_its_version(checkout / "src/lastout/_bin/lastout-supervisor") == VERSION


def test_a_source_distribution_builds_the_same_wheel(checkout: Path, tmp_path: Path) -> None:
    build("editable", checkout, tmp_path / "dist")  # leaves a program, which must not travel
    sdist = build("sdist", checkout, tmp_path / "dist")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "_bin" in name]
    subprocess.run(["tar", "-xf", str(sdist), "-C", str(tmp_path)], check=True)
    wheel = build("wheel", tmp_path / f"lastout-{VERSION}", tmp_path / "dist")
    assert says_its_version(unpack_program(wheel, tmp_path)) == VERSION


def run_script(checkout: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hatch_build.py", *options],
        cwd=checkout,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("env", [{"PATH": "/nowhere"}, {"CC": "no-such-compiler"}])
def test_no_compiler_is_one_clear_sentence(checkout: Path, env: dict[str, str]) -> None:
    done = run_script(checkout, **env)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "needs a C compiler, and none was found" in line


def test_no_compiler_is_one_clear_sentence_for_an_installer_too(
    checkout: Path, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling")
    code = "import hatchling.build as b; b.build_wheel('.')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        env={**os.environ, "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "needs a C compiler, and none was found" in line


def test_an_unknown_way_of_linking_is_named(checkout: Path) -> None:
    done = run_script(checkout, LASTOUT_LINK="magic")
    assert done.returncode == 1
    assert done.stderr == "lastout: LASTOUT_LINK=magic is none of musl, static, zig, dynamic.\n"


def test_a_compiler_error_is_shown_and_leaves_the_old_program(checkout: Path) -> None:
    assert run_script(checkout).returncode == 0
    (checkout / "native/broken.c").write_text("int broken(void) { return undeclared; }\n")
    done = run_script(checkout)
    assert done.returncode == 1
    assert "undeclared" in done.stderr
    assert says_its_version(checkout / "src/lastout/_bin/lastout-supervisor") == VERSION


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_another_system_is_told_in_one_line(
    platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_script()
    monkeypatch.setattr(sys, "platform", platform)
    assert script.main([]) == 1
    assert capsys.readouterr().err == (
        "lastout: only Linux is supported so far; macOS and Windows come later.\n"
    )


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
