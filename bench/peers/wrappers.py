"""The wrappers that are compared, and how each is told to be as thorough as it can."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
BAZEL = next(iter(Path("/usr/libexec").glob("*/bazel")), Path("/usr/libexec/bazel"))


@dataclass(frozen=True)
class Wrapper:
    """A wrapper: what stands in front of the command.

    In `command`, `{grace}`, `{third}` and `{whole}` become the grace in seconds, a third of it, and
    the grace rounded for those who take whole seconds only. `is_root`: the wrapper becomes the
    command itself by an exec, or there is none. `plain`: for a grace of 3 s, if that differs.
    """

    name: str
    command: tuple[str, ...]
    is_root: bool = False
    ours: bool = False
    plain: tuple[str, ...] | None = None

    def argv(self, grace: float = 3.0) -> list[str]:
        command = self.plain if self.plain is not None and grace == 3 else self.command
        values = {
            "grace": f"{grace:.3f}",
            "third": f"{grace / 3:.3f}",
            "whole": str(max(1, round(grace))),
        }
        return [part.format(**values) for part in command]


@dataclass(frozen=True)
class Skipped:
    """A wrapper that cannot be had here, and why."""

    name: str
    why: str


def lastout_wrapper(program: str | Path | None = None, name: str = "**lastout**") -> Wrapper:
    """Our row: the bare supervisor, by default the one inside the package.

    With a grace of 3 s it gets no options at all; with a shorter one its graces shrink alike.
    """
    found = str(program or files("lastout") / "_bin" / "lastout-supervisor")
    graces = ("--stdin-grace", "{third}", "--term-grace", "{grace}")
    return Wrapper(name, (found, *graces, "--"), ours=True, plain=(found, "--"))


def version_of(program: str) -> str:
    """The first number in what a program says of its version, or nothing."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = (said.stdout + said.stderr).replace("v", " ").replace("_", " ").split()
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


def installed(
    package: str, program: str | Path, *options: str, label: str = "", is_root: bool = False
) -> Wrapper | Skipped:
    """A wrapper that is there, named with its version, or why it is not."""
    found = shutil.which(str(program))
    name = Path(program).name
    if found is None:
        return Skipped(f"{name} {label}".strip(), f"not installed: package {package}")
    version = version_of(found) if isinstance(program, str) else ""
    words = [name, version, label]
    return Wrapper(" ".join(word for word in words if word), (found, *options), is_root=is_root)


def debian_wrappers() -> Iterator[Wrapper | Skipped]:
    """Those that Debian's packages have."""
    yield Wrapper("none", (), is_root=True)
    yield installed("tini", "tini", "-s", "-g", "--", label="-s -g")
    yield installed("tini", "tini", "-s", "-g", "-p", "SIGTERM", "--", label="-s -g -p TERM")
    yield installed("dumb-init", "dumb-init", "--")
    yield installed("catatonit", "catatonit", "-g", "--", label="-g")
    pdeathsig = ("--pdeathsig", "TERM")
    yield installed(
        "util-linux", "setpriv", *pdeathsig, "--", label=" ".join(pdeathsig), is_root=True
    )
    yield installed("coreutils", "timeout", "-k", "{grace}", "600", label="-k3")
    kill_child = ("--pid", "--fork", "--kill-child")
    yield installed("util-linux", "unshare", *kill_child, "--", label=" ".join(kill_child))
    with_parent = ("--unshare-pid", "--die-with-parent")
    everything = ("--dev-bind", "/", "/", "--proc", "/proc", "--")
    yield installed("bubblewrap", "bwrap", *with_parent, *everything, label=" ".join(with_parent))
    bazel = "bazel-bootstrap"
    yield installed(
        bazel, BAZEL / "process-wrapper", "-g", "-k", "{whole}", "--", label="-g -k3 (Bazel)"
    )
    yield installed(
        bazel, BAZEL / "linux-sandbox", "-t", "{whole}", "-w", "/tmp", "--", label="-t3 (Bazel)"
    )


def registry_wrappers(place: Path) -> Iterator[Wrapper | Skipped]:
    """Those of PyPI and npm, installed below `place` by provision.py."""
    python = place / "python" / "bin" / "python"
    kit, wheel = python.with_name("processkit"), "processkit-py of PyPI"
    yield installed(wheel, kit, "run", "--", label="run")
    bound = "--kill-on-parent-death"
    yield installed(wheel, kit, "run", bound, "--", label=f"run {bound}")
    if importable(python, "procwarden"):
        warden = (str(python), "-I", str(HERE / "with_procwarden.py"), "{grace}")
        yield Wrapper("procwarden", warden)
    else:
        yield Skipped("procwarden", "not installed: procwarden of PyPI")
    node, module = shutil.which("node"), place / "node" / "node_modules" / "execa" / "index.js"
    if node and module.exists():
        yield Wrapper("execa", (node, str(HERE / "with_execa.mjs"), str(module), "{grace}"))
    else:
        yield Skipped("execa", "not installed: execa of npm, with node")
    yield Skipped("muontrap", "published for another language's registry only")


def importable(python: Path, module: str) -> bool:
    command = [str(python), "-c", f"import {module}"]
    if not python.exists():
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def all_wrappers(place: Path) -> list[Wrapper | Skipped]:
    """Every row in the order of the table, ours last; `place` is where provision.py installs."""
    return [*debian_wrappers(), *registry_wrappers(place.resolve()), lastout_wrapper()]
