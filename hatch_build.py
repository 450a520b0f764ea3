"""Builds the native supervisor: the one place that knows its sources, flags and destination.

As hatchling's build hook it puts the program into every wheel, the editable one included. As a
script it builds in the work tree and needs nothing but a compiler: `python hatch_build.py`
(see `--help`).

Environment: CC (then only this compiler is used), LASTOUT_LINK (musl, static, zig or dynamic;
otherwise the first of musl, static and dynamic that works on this machine), LASTOUT_MACHINE (what a
wheel is for when CC makes programs for another machine: x86_64, aarch64), CFLAGS and LDFLAGS
(appended).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    Base = BuildHookInterface[Any]
else:
    try:
        from hatchling.builders.hooks.plugin.interface import BuildHookInterface as Base
    except ImportError:  # run as a script, before anything has been installed
        Base = object

HERE = Path(__file__).resolve().parent
IN_TREE = HERE / "src" / "lastout" / "_bin" / "lastout-supervisor"
IN_WHEEL = "lastout/_bin/lastout-supervisor"

FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")
# Only in the work tree: a newer compiler's new warning must not break somebody's installation.
STRICT = ("-Werror",)
SANITIZE = (
    "-g",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
# Fewer pages to map and copy: private memory of a static glibc build fell from 336 to 192 KiB.
SMALL = ("-ffunction-sections", "-fno-asynchronous-unwind-tables", "-Wl,--gc-sections")
FEWER = "-Wl,-z,noseparate-code"
LINK = {
    "musl": ("-static", "-s", *SMALL, FEWER),
    "static": ("-static", "-s", *SMALL, FEWER),
    "zig": ("-static", "-s", *SMALL),  # musl too; zig knows no FEWER
    "dynamic": ("-s",),
}

ONLY_LINUX = "lastout: only Linux is supported so far; macOS and Windows come later."
NO_COMPILER = (
    "lastout: building the supervisor needs a C compiler, and none was found; "
    "install one (for example: apt install gcc libc6-dev) or name it in CC."
)


class Toolchain(NamedTuple):
    """A compiler and how it links: `musl` and `static` programs need no libc at run time."""

    compiler: tuple[str, ...]
    link: str

    @property
    def is_static(self) -> bool:
        return self.link != "dynamic"


class BuildFailed(Exception):
    """The supervisor could not be built; the text is for the person who reads it."""


def candidates(compiler: str | None, link: str | None) -> Iterator[Toolchain]:
    """What could build the supervisor here, best first: musl starts fastest and is smallest."""
    named = compiler or os.environ.get("CC")
    if named:
        words = tuple(shlex.split(named))
        kind = "musl" if "musl" in Path(words[0]).name else "static"
        yield from (Toolchain(words, each) for each in ([link] if link else [kind, "dynamic"]))
        return
    native = next(((name,) for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if shutil.which("musl-gcc") and link in (None, "musl"):
        yield Toolchain(("musl-gcc",), "musl")
    if native and link != "musl":
        yield from (Toolchain(native, each) for each in ([link] if link else ["static", "dynamic"]))


def can_link(toolchain: Toolchain) -> bool:
    """Whether this toolchain makes a program of the simplest source (libc.a may be missing)."""
    with tempfile.TemporaryDirectory() as scratch:
        probe = Path(scratch, "probe.c")
        probe.write_text("#include <unistd.h>\nint main(void) { return getpid() < 0; }\n")
        command = [*toolchain.compiler, *LINK[toolchain.link], "-o", f"{scratch}/probe", str(probe)]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def choose(compiler: str | None = None, link: str | None = None) -> Toolchain:
    """The first toolchain that works. Raises BuildFailed when there is none."""
    if sys.platform != "linux":
        raise BuildFailed(ONLY_LINUX)
    link = link or os.environ.get("LASTOUT_LINK") or None
    if link is not None and link not in LINK:
        raise BuildFailed(f"lastout: LASTOUT_LINK={link} is none of {', '.join(LINK)}.")
    known = [each for each in candidates(compiler, link) if shutil.which(each.compiler[0])]
    if not known:
        raise BuildFailed(NO_COMPILER)
    for toolchain in known:
        if can_link(toolchain):
            return toolchain
    tried = " or ".join(f"{' '.join(each.compiler)} ({each.link})" for each in known)
    raise BuildFailed(
        f"lastout: {tried} makes no program here; is the C library's development package installed?"
    )


def version() -> str:
    text = (HERE / "src" / "lastout" / "_version.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    if found is None:
        raise BuildFailed("lastout: src/lastout/_version.py names no version.")
    return found[1]


def build(toolchain: Toolchain, output: Path, *, strict: bool, sanitize: bool = False) -> None:
    """Compile native/*.c into `output`, replaced in one step: it may be running.

    Raises BuildFailed with the compiler's own words.
    """
    sources = sorted(str(path) for path in (HERE / "native").glob("*.c"))
    if not sources:
        raise BuildFailed(f"lastout: {HERE / 'native'} holds no C sources.")
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    command = [
        *toolchain.compiler,
        *FLAGS,
        *(STRICT if strict else ()),
        *(SANITIZE if sanitize else ()),
        f'-DLASTOUT_VERSION="{version()}"',
        *shlex.split(os.environ.get("CFLAGS", "")),
        *(() if sanitize else LINK[toolchain.link]),
        *shlex.split(os.environ.get("LDFLAGS", "")),
        "-o",
        str(fresh),
        *sources,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildFailed(
                f"lastout: the compiler failed.\n{shlex.join(command)}\n{done.stderr}"
            )
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)


def wheel_tag(toolchain: Toolchain) -> str:
    """A static program asks nothing of the machine's libc, so its wheel is good on all of them."""
    here = sysconfig.get_platform().partition("-")[2]
    machine = (os.environ.get("LASTOUT_MACHINE") or here).replace("-", "_").replace(".", "_")
    if toolchain.is_static:
        return f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return f"py3-none-linux_{machine}"


class CustomBuildHook(Base):
    """Hatchling's side: one build for each wheel, from a source distribution or the work tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            toolchain = choose()
            if version == "editable":
                build(toolchain, IN_TREE, strict=True)
                return
            self.scratch = tempfile.TemporaryDirectory(prefix="lastout-build-")
            program = Path(self.scratch.name, IN_TREE.name)
            build(toolchain, program, strict=False)
        except BuildFailed as failure:
            raise SystemExit(str(failure)) from None
        build_data["force_include"][str(program)] = IN_WHEEL
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag(toolchain)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.scratch.cleanup()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the native supervisor.")
    parser.add_argument(
        "--output", type=Path, default=IN_TREE, metavar="PATH", help="default: %(default)s"
    )
    parser.add_argument(
        "--cc", metavar="COMPILER", help="default: $CC, else musl-gcc, cc, gcc or clang"
    )
    parser.add_argument("--link", choices=list(LINK), help="default: the first that works")
    parser.add_argument(
        "--sanitize", action="store_true", help="with AddressSanitizer and UBSan, dynamic"
    )
    options = parser.parse_args(arguments)
    try:
        compiler = (
            options.cc
            or os.environ.get("CC")
            or ("gcc" if options.sanitize and shutil.which("gcc") else None)
        )
        toolchain = choose(compiler, "dynamic" if options.sanitize else options.link)
        build(toolchain, options.output, strict=True, sanitize=options.sanitize)
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    size = options.output.stat().st_size
    kind = "sanitizers" if options.sanitize else toolchain.link
    print(f"{options.output}: {' '.join(toolchain.compiler)}, {kind}, {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
