"""Release files of the last commit: its source distribution, and from that one wheel for each machine.

`zig cc` (PyPI: ziglang) brings musl and the linker for every machine, so that any machine with Python
makes all of them. Each file is built twice, in two places, and the two must be the same bytes.

Environment: SOURCE_DATE_EPOCH (seconds; otherwise the time of the last commit).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("x86_64", "aarch64")


class ReleaseFailed(Exception):
    """No release can be made; the text is for the person who reads it."""


def git(*words: str) -> str:
    """What git says of the project. Raises ReleaseFailed."""
    try:
        told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except OSError as error:
        raise ReleaseFailed(f"a release is made of a commit: {error}") from error
    except subprocess.CalledProcessError as error:
        raise ReleaseFailed(f"a release is made of a commit: {error.stderr.strip()}") from error
    return told.stdout.strip()


def build(kind: str, source: Path, output: Path, **env: str) -> Path:
    """Have hatchling build one file (`sdist` or `wheel`) of `source` into `output`."""
    output.mkdir(parents=True, exist_ok=True)
    code = f"import sys, hatchling.build as b; print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(output)],
        cwd=source,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseFailed(done.stderr)
    return output / done.stdout.split()[-1]


def checkout(commit: str, target: Path) -> Path:
    """The files of a commit: what lies about in the work tree is in no release."""
    target.mkdir()
    files = target / "commit.tar"
    git("archive", "-o", str(files), commit)
    with tarfile.open(files) as archive:
        archive.extractall(target, filter="data")
    files.unlink()
    return target


def make(scratch: Path, commit: str, machines: tuple[str, ...], date: str) -> list[Path]:
    """Everything once, below `scratch`."""
    output = scratch / "dist"
    sdist = build("sdist", checkout(commit, scratch / "commit"), output, SOURCE_DATE_EPOCH=date)
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    made = [sdist]
    for machine in machines:
        # The oldest of its kind: without it zig takes the processor that it runs on.
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]
        made.append(
            build(
                "wheel",
                source,
                output,
                SOURCE_DATE_EPOCH=date,
                CC=shlex.join([*compiler, "-mcpu=baseline"]),
                LASTOUT_LINK="zig",
                LASTOUT_MACHINE=machine,
                ZIG_LOCAL_CACHE_DIR=str(scratch / "cache"),
            )
        )
    return made


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def release(output: Path, machines: tuple[str, ...]) -> list[Path]:
    """Build twice, compare, and leave the files in `output`. Raises ReleaseFailed."""
    for module in ("ziglang", "hatchling"):
        if importlib.util.find_spec(module) is None:
            raise ReleaseFailed(f"{module} is not installed: pip install --group release")
    commit = git("rev-parse", "HEAD")  # once: it may move while this works
    # As reproducible-builds.org defines it.
    date = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct", commit)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = (make(Path(place), commit, machines, date) for place in (one, two))
        for left, right in zip(first, second, strict=True):
            if (left.name, digest(left)) != (right.name, digest(right)):
                raise ReleaseFailed(f"{left.name} came out different the second time")
        output.mkdir(parents=True, exist_ok=True)
        kept = [output / path.name for path in first]
        for source, target in zip(first, kept, strict=True):
            target.write_bytes(source.read_bytes())
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: all of them")
    options = parser.parse_args()
    try:
        made = release(options.output, tuple(options.machine or MACHINES))
    except ReleaseFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    for path in made:
        print(f"{digest(path)}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
