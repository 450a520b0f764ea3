"""Finds the programs of tests/programs and compiles the C ones, once for each state of the sources."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "programs"
_ROOT = SOURCES.parent.parent


def supervisor_binary() -> str:
    """The supervisor under test: $LASTOUT_SUPERVISOR_UNDER_TEST, or the one in the package."""
    default = _ROOT / "src" / "lastout" / "_bin" / "lastout-supervisor"
    return os.environ.get("LASTOUT_SUPERVISOR_UNDER_TEST") or str(default)


@functools.cache
def program(name: str) -> str:
    """The path of a test program: compiled from NAME.c and NAME_*.c, or a script as it is."""
    for script in (SOURCES / f"{name}.py", SOURCES / f"{name}.sh"):
        if script.exists():
            return str(script)
    path = build_directory() / name
    if not path.exists():
        raise FileNotFoundError(f"no test program {name} in {SOURCES}")
    return str(path)


def command(name: str) -> list[str]:
    """The argv that starts a test program, without depending on the script's mode bits."""
    path = program(name)
    if path.endswith(".py"):
        return [sys.executable, "-S", "-E", path]
    return ["sh", path] if path.endswith(".sh") else [path]


@functools.cache
def build_directory() -> Path:
    """A directory that every user may read: some programs run as another user."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"\0".join(p.name.encode() + p.read_bytes() for p in sources))
    base = Path(tempfile.gettempdir()) / f"lastout-programs-{os.getuid()}-{digest.hexdigest()[:12]}"
    base.mkdir(mode=0o755, exist_ok=True)
    if base.is_symlink() or base.stat().st_uid != os.getuid():
        raise PermissionError(f"{base} belongs to somebody else")
    base.chmod(0o755)
    mains = [p for p in sources if p.suffix == ".c" and "int main(" in p.read_text()]
    jobs = [_compile(p, base) for p in mains if not (base / p.stem).exists()]
    for process, temporary, final in jobs:
        if process.wait() != 0:
            raise RuntimeError(f"cannot compile {final.name}")
        temporary.rename(final)
    return base


def _compile(main: Path, base: Path) -> tuple[subprocess.Popen[bytes], Path, Path]:
    parts = sorted(SOURCES.glob(f"{main.stem}_*.c"))
    temporary = base / f".{main.stem}.{os.getpid()}"
    argv = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(temporary)]
    process = subprocess.Popen([*argv, str(main), *map(str, parts), "-lpthread"])
    return process, temporary, base / main.stem
