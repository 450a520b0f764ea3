"""Real runs for tests: `lastout run` with a record, traced or not, and what can be told of it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import leftovers
from harness.identity import Identity
from lastout.evidence import journal
from lastout.evidence.claims import Claim, Story
from lastout.evidence.why import story
from lastout.evidence.words import sentence

PYTHON = sys.executable
_SETTLE_S = 20.0


@dataclass
class Told:
    """A run that is over."""

    returncode: int
    path: Path
    stderr: str = ""

    @property
    def contents(self) -> journal.Contents:
        return journal.read(self.path)

    @property
    def story(self) -> Story:
        return story(self.contents)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def kinds(self) -> list[str]:
        return [claim.kind for claim in self.story.claims]

    def claims(self, kind: str) -> list[Claim]:
        return [claim for claim in self.story.claims if claim.kind == kind]

    def claim(self, kind: str) -> Claim:
        (found,) = self.claims(kind)
        return found

    def says(self, kind: str) -> str:
        return " ".join(sentence(claim.kind, claim.facts) for claim in self.claims(kind))

    def headline(self) -> str:
        return " ".join(sentence(claim.kind, claim.facts) for claim in self.story.headline)


def run(
    tmp_path: Path,
    *argv: str,
    traced: bool = False,
    options: tuple[str, ...] = (),
    before: set[Identity] | None = None,
    **more: Any,
) -> Told:
    """Run it to its end; a traced one until its tracer has ended too."""
    path = tmp_path / f"run{len(list(tmp_path.glob('run*.jsonl')))}.jsonl"
    present = leftovers.present() if before is None else before
    done = subprocess.run(
        [PYTHON, "-m", "lastout", "run", "--record", str(path), *(["--trace"] if traced else []),
         *options, "--", *argv],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, **more,
    )  # fmt: skip
    if traced:
        settle(present)
    return Told(done.returncode, path, done.stderr)


def settle(before: set[Identity]) -> None:
    """Wait for what outlives a run by its own design (keeper, scribe, tracer) to end by itself."""
    limit = time.monotonic() + _SETTLE_S
    while (living := leftovers.living(before)) and time.monotonic() < limit:
        try:
            fd = os.pidfd_open(living[0].pid)
        except ProcessLookupError:
            continue
        try:
            select.select([fd], [], [], limit - time.monotonic())
        finally:
            os.close(fd)


def left_instances() -> list[str]:
    """Those whose tracer is gone and that stay. One of somebody else's run, played at the same time,
    is removed by its guard in a moment."""
    limit = time.monotonic() + _SETTLE_S
    while (found := instances()) and time.monotonic() < limit:
        pass
    return found


def instances(pid: int | None = None) -> list[str]:
    """The trace instances of this tracer, or those whose tracer is gone; others' are left alone."""
    code = (
        "import os; from lastout.evidence.trace.instance import Tracefs;"
        "print(*os.listdir(Tracefs().root + '/instances'))"
    )
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    names = [name for name in done.stdout.split() if name.startswith("lastout.")]
    if pid is not None:
        return [name for name in names if name.split(".")[1] == str(pid)]
    return [name for name in names if not Path(f"/proc/{name.split('.')[1]}").exists()]
