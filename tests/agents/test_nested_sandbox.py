"""Codex's own sandbox (its bubblewrap, seccomp) inside --contain pidns: it holds as it does outside,
and what was started in it is ended with the rest."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest
from real_agents import BIN, need

from harness import Scene
from harness.programs import supervisor_binary
from harness.setuid import NOBODY
from harness.tiers import needs_pidns

pytestmark = [pytest.mark.root, needs_pidns]

CODEX = (BIN / "codex").resolve().parent.parent  # the npm package; the program lies beside it


def native() -> Path:
    """The program itself: its npm wrapper would look for a node that is not asked for here."""
    need("codex")
    return next(CODEX.parent.glob("codex-linux-*/vendor/*/bin/codex"))


@pytest.fixture(params=[0, NOBODY], ids=["root", "nobody"])
def via(request: pytest.FixtureRequest, scene: Scene) -> list[str]:
    """What makes us that user."""
    become = [*scene.program("enter"), "--uid", str(request.param), "--"] if request.param else []
    for needed in (str(native()), supervisor_binary()):
        if subprocess.run([*become, "test", "-x", needed], check=False).returncode:
            pytest.skip(f"needs {needed} where an ordinary user may execute it")
    return become


@pytest.fixture
def home(via: list[str]) -> Iterator[Path]:
    """Codex's own, where that user may go: not below TMPDIR, or it makes no links to itself."""
    path = Path(tempfile.mkdtemp(prefix="lastout-test-"))
    with contextlib.ExitStack() as after:
        after.callback(shutil.rmtree, path, ignore_errors=True)
        for name in ("codex", "tmp", "work"):
            (path / name).mkdir()
        for one in (path, *path.iterdir()):
            os.chown(one, NOBODY if via else 0, -1)
        yield path


def sandboxed(home: Path, *command: str) -> list[str]:
    where = ["-C", f"{home}/work", f"CODEX_HOME={home}/codex", f"TMPDIR={home}/tmp", f"HOME={home}"]
    mode = ['sandbox_mode="workspace-write"', "sandbox_workspace_write.exclude_slash_tmp=true"]
    options = [word for setting in mode for word in ("-c", setting)]
    return ["env", *where, str(native()), "sandbox", *options, "--", *command]


def test_it_holds_inside(scene: Scene, home: Path, via: list[str]) -> None:
    shell = (
        "read -r pid rest < /proc/self/stat; cat /proc/1/comm; echo mine > mine && cat mine; "
        f"touch {home}/codex/x 2>/dev/null || echo read-only; "
        "grep -c '^Seccomp:.*2' /proc/self/status"
    )
    run = scene.run(
        sandboxed(home, "sh", "-c", shell), "--contain", "pidns", via=via, record=not via
    )
    run.ends(code=0)
    init, mine, elsewhere, filters = run.output_text().split()
    assert init != "lastout-init", "a pid namespace of its own, in ours"
    assert (mine, elsewhere, filters) == ("mine", "read-only", "1"), run.error_text()


def test_what_was_started_in_it_is_ended_with_the_rest(
    scene: Scene, home: Path, via: list[str]
) -> None:
    shell = (
        "trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep 60; :\" & echo up; sleep 60; :"
    )
    reader, writer = os.pipe()
    run = scene.run(
        sandboxed(home, "sh", "-c", shell),
        "--contain",
        "pidns",
        via=via,
        stdout=writer,
        record=not via,
    )
    os.close(writer)
    with open(reader) as output:
        assert output.readline() == "up\n", run.error_text()
        assert len(scene.strangers()) > 5, "front, keeper, init, Codex's, and two shells"
        run.signal(SIGTERM)
        run.ends(signal=SIGTERM)
        assert output.read() == "", "nobody holds it"
