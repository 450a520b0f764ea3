"""A set-uid root copy of the actor, beside a supervisor that an ordinary user may execute."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.programs import program, supervisor_binary

NOBODY = 65534


@contextlib.contextmanager
def setuid_tools(tmp_path: Path) -> Iterator[Path]:
    """The directory of both; `tmp_path` is opened for that user, too."""
    tools = Path(program("report")).parent / f"setuid-{os.getpid()}"
    tools.mkdir(mode=0o755)
    try:
        for name, source in (("actor", program("actor")), ("supervisor", supervisor_binary())):
            shutil.copy(source, tools / name)
            (tools / name).chmod(0o4755 if name == "actor" else 0o755)
        if os.statvfs(tools).f_flag & os.ST_NOSUID:
            pytest.skip("needs a file system that honours set-uid")
        for parent in tmp_path.parents:
            if parent.owner() == "root" and parent.name.startswith("pytest-"):
                parent.chmod(0o755)
        tmp_path.chmod(0o777)
        yield tools
    finally:
        shutil.rmtree(tools)


def with_setuid_tool(tools: Path) -> list[str]:
    """A root that leaves a set-uid root tool behind, which SIGTERM does not end."""
    actor = program("actor")
    shell = f'"{tools}/actor" left uid=0 ignore & exec "{actor}" root term=exit:0'
    return ["sh", "-c", shell]
