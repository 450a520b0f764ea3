"""Finds the native agent: never its wrapper where the agent itself is there.

The wrapper matters: npm's `codex` is a Node program whose child is the agent. A kill of the wrapper
leaves the agent alive with its lock and its pipes, and the kernel's parent-death signal reaches
only the wrapper.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lastout.agents.adapter import AgentMissing, AgentTooOld, Program

__all__ = ["find", "is_native", "native_beside", "version_of"]

_VERSION_WAIT: Final = 15.0
"""Seconds that an agent may take to print its version (a 400 MB binary on a cold disk)."""

_PATTERNS: Final = (
    # Where npm puts the platform's package: beside the wrapper's, or inside it.
    "{name}-*/vendor/*/bin/{tool}",
    "{name}/node_modules/@*/{base}-*/vendor/*/bin/{tool}",
    "{name}/vendor/*/bin/{tool}",
    "{name}/vendor/*/{tool}/{tool}",
    "{name}-*/{tool}",
)

_versions: dict[tuple[int, int, int], str | None] = {}


async def find(
    tool: str, *, given: str | None, env: Mapping[str, str] | None, package: str, oldest: str
) -> Program:
    """The program for `tool`: a path, or the first on PATH; behind a wrapper the native one.

    Raises AgentMissing, AgentTooOld.
    """
    advice = (
        f"{tool} {oldest} or newer is needed (npm install -g {package}@latest), or name its path"
    )
    if given is not None and os.sep in given:
        path = given if _executable(given) else None
    else:
        path = shutil.which(given or tool, path=(env or os.environ).get("PATH"))
    if path is None:
        raise AgentMissing(f"{given or tool} was not found, or is not executable: {advice}")
    notice = None
    if not is_native(path):
        native = native_beside(path, package, tool)
        if native is None:
            notice = (
                f"only a wrapper of {tool} was found ({path}), and is started as it is; when "
                "somebody kills it alone, the agent below it ends with the tree, not with it"
            )
        else:
            path = native
    version = await version_of(path, env)
    if version is None:
        raise AgentMissing(f"{path} does not tell its version: {advice}")
    if _numbers(version) < _numbers(oldest):
        raise AgentTooOld(f"{path} is {tool} {version}: {advice}")
    return Program(path, version, notice, notice is not None)


def _executable(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)


def is_native(path: str) -> bool:
    """Whether this file is an ELF program, and not a script for an interpreter."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def native_beside(wrapper: str, package: str, tool: str) -> str | None:
    """The native program that belongs to npm's wrapper, where its package is installed."""
    base = package.rpartition("/")[2]
    for parent in Path(wrapper).resolve().parents:
        if parent.name != "node_modules":
            continue
        for pattern in _PATTERNS:
            for found in sorted(parent.glob(pattern.format(name=package, base=base, tool=tool))):
                if is_native(str(found)) and os.access(found, os.X_OK):
                    return str(found)
    return None


async def version_of(path: str, env: Mapping[str, str] | None) -> str | None:
    """What `PATH --version` says, remembered for as long as the file stays the same."""
    from lastout.completed import run_process

    try:
        found = os.stat(path)  # follows npm's symbolic link: the file that will be executed
    except OSError:
        return None
    key = (found.st_ino, found.st_mtime_ns, found.st_size)
    if key not in _versions:
        try:
            run = await run_process(
                [path, "--version"], env=env, record=False, timeout=_VERSION_WAIT
            )
        except OSError as error:
            raise AgentMissing(f"{path} cannot be executed: {error.strerror}") from error
        text = (run.stdout or b"").decode("utf-8", "replace")
        match = re.search(r"\d+\.\d+\.\d+", text)
        if match is None:
            return None  # perhaps it was only too slow: asked again next time
        _versions[key] = match[0]
    return _versions[key]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
