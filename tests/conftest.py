"""For every suite: nothing may be left running after a test, proven by identity."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import leftovers
from harness.identity import Identity
from harness.pauses import stillness
from harness.programs import supervisor_binary
from harness.scene import Scene


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "root: needs to be root (freezer, users, namespaces, mounts)"
    )
    for line in (
        "still: stops or continues processes itself, or counts that; make load stops none meanwhile",
        "quiet: its subject is that nothing happens; make load neither stops nor freezes meanwhile",
    ):
        config.addinivalue_line("markers", line)
    leftovers.become_subreaper()
    _hear_all_signals()


def _hear_all_signals() -> None:
    """A suite that was started in the background has INT and QUIT ignored, one under nohup HUP: the
    programs under test would inherit that, and rightly not obey."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


_reports = pytest.StashKey[dict[str, pytest.TestReport]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    item.stash.setdefault(_reports, {})[report.when] = report
    return report


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[set[Identity]]:
    """Fails a test that leaves a process alive, names it with its identity, and ends it."""
    before = leftovers.present()
    for marker in ("quiet", "still"):
        if request.node.get_closest_marker(marker):
            stillness.ask(quiet=marker == "quiet")
    yield before
    stillness.ask()  # who is stopped now would seem to be left
    leftovers.wait_for_supervisors(before)
    left = [leftovers.describe(stat) for stat in leftovers.living(before)]
    leftovers.sweep(before)
    stillness.end()
    report = request.node.stash.get(_reports, {}).get("call")
    if left and report is not None and report.passed:
        pytest.fail("left running after the test:\n" + "\n".join(left))


@pytest.fixture
def scene(
    tmp_path: Path, nothing_left: set[Identity], request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """Owner, supervisors and programs of one test. See harness/scene.py."""
    if not Path(supervisor_binary()).exists():
        pytest.fail(f"no supervisor at {supervisor_binary()}: run `make native` first")
    made = Scene(tmp_path, nothing_left)
    yield made
    strangers = made.strangers()
    made.close()
    report = request.node.stash.get(_reports, {}).get("call")
    if strangers and report is not None and report.passed:
        pytest.fail("alive when the test was over:\n" + "\n".join(strangers))
