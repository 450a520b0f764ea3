"""What the supervisor under test finds on this kernel, or believes to find (`make old-kernel`)."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from typing import Any

import pytest

from harness.programs import supervisor_binary


@functools.cache
def _started() -> dict[str, Any]:
    """The `started` line of a run that does nothing; empty where there is no supervisor."""
    if not os.path.exists(supervisor_binary()):
        return {}
    with tempfile.NamedTemporaryFile(prefix="lastout-test-") as record:
        options = ["--stdin-end", "ignore", "--record", record.name]
        subprocess.run(
            [supervisor_binary(), *options, "--", "true"], stdin=subprocess.DEVNULL, check=True
        )
        lines: list[dict[str, Any]] = list(map(json.loads, record))
    return next(line for line in lines if line["event"] == "started")


def has_inodes() -> bool:
    """Whether a record names processes by the inodes of their pidfds."""
    found = _started()
    return not found or bool(found["root"]["inode"])


needs_inodes = pytest.mark.skipif(
    not has_inodes(),
    reason="without pidfs (Linux 6.9) the group of a dead leader is nobody's: that is `unproven`",
)
needs_children_files = pytest.mark.skipif(
    not _started().get("children_files", True),
    reason="without lists of children (CONFIG_PROC_CHILDREN) all of /proc is read",
)
