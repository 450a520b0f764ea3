"""The dashboard's numbers, in a real browser: how late it shows an event, and its first view."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lastout

from .measure import SUPERVISOR, Number, percentile

RUNS = 1000
VIEWS = 9
TTL_S = 180
_SOURCE = str(Path(lastout.__file__).parent.parent)

# When the row of a run was first painted in its state, by the clock that records are written by.
_SEES = """
window.seen = {};
window.first = 0;
const look = () => {
  for (const row of document.querySelectorAll(".row[data-id]")) {
    const key = `${row.dataset.id} ${row.dataset.state}`;
    if (key in window.seen) continue;
    window.seen[key] = 0;
    requestAnimationFrame(() => setTimeout(() => {
      window.seen[key] = performance.timeOrigin + performance.now();
      window.first ||= performance.now();
    }));
  }
};
new MutationObserver(look).observe(document, { subtree: true, childList: true,
  attributes: true, attributeFilter: ["data-state"] });
"""


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """Both, with 1,000 live runs; `rounds` of them (at most 100) are stopped."""
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        progress("web: needs Playwright and Debian's Chromium; left out")
        return []
    with tempfile.TemporaryDirectory(prefix="lastout-web-") as folder:
        return _measure(Path(folder), min(rounds, 100), chromium, progress)


def _measure(
    state: Path, count: int, chromium: str, progress: Callable[[str], None]
) -> list[Number]:
    from playwright.sync_api import sync_playwright

    progress(f"web: {RUNS} live runs, {count} of them to be stopped")
    laid = _lay(state, RUNS - count)
    live = [_start(state, number) for number in range(count)]
    server, link = _serve(state)
    try:
        with sync_playwright() as playwright:
            flags = ["--disable-dev-shm-usage"]
            flags += ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=chromium, args=flags)
            views = [_view(browser, link) for _ in range(VIEWS)]
            progress("web: events")
            late = _events(browser, link, live)
            browser.close()
        memory = _memory(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        laid.terminate()
        for process in (laid, *(process for process, _ in live)):
            process.wait()
    detail = (
        f"painted in Chromium; {RUNS} runs live, n {len(late)}, median "
        f"{statistics.median(late):.0f} ms, worst {max(late):.0f} ms; "
        f"server {memory >> 20} MiB, load {os.getloadavg()[0]:.0f}"
    )
    shown = f"median of {VIEWS}, worst {max(views):.2f} s, from the link to the painted rows"
    return [
        Number("web: an event on the page after it was recorded, p95", percentile(late, 95), 200.0,
               "ms", detail),
        Number(f"web: first view of {RUNS:,} live runs", statistics.median(views), 1.0, "s", shown),
    ]  # fmt: skip


def _start(state: Path, number: int) -> tuple[subprocess.Popen[bytes], Path]:
    """A run that does not obey, so that its stop can be seen; it ends by itself in the end."""
    run = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-b{number:05}"
    record = state / "runs" / run[:8] / f"{run}.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    command = ["sh", "-c", f"trap '' TERM; exec sleep {TTL_S}"]
    argv = [str(SUPERVISOR), "--run", run, "--record", str(record), "--stdin-end", "ignore"]
    process = subprocess.Popen([*argv, "--", *command], stdin=subprocess.DEVNULL)
    while not record.exists() or b'"started"' not in record.read_bytes():
        time.sleep(0.002)
    return process, record


def _lay(state: Path, count: int) -> subprocess.Popen[bytes]:
    """Records of one live run under other ids: their supervisors are alive, so they are live."""
    process, record = _start(state, 99999)
    text, own = record.read_text(), record.stem
    os.unlink(record)
    for number in range(count):
        other = f"{own[:16]}{number:06d}"
        record.with_name(f"{other}.jsonl").write_text(text.replace(own, other))
    return process


def _serve(state: Path) -> tuple[subprocess.Popen[str], str]:
    argv = [sys.executable, "-m", "lastout", "web", "--state", str(state), "--port", "0"]
    server = subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": _SOURCE}
    )
    assert server.stdout is not None
    text = ""
    while "key=" not in text:
        line = server.stdout.readline()
        if not line:
            raise RuntimeError("the dashboard has ended")
        text += line
    return server, re.findall(r"http\S+", text)[0]


def _view(browser: Any, link: str) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(_SEES)
    page.goto(link)
    page.locator(".row[data-state=running]").first.wait_for()
    first = _soon(page, "window.first")
    context.close()
    return first / 1000


def _soon(page: Any, expression: str) -> float:
    """A number of the page once it is there. (The page allows nobody to wait in it by `eval`.)"""
    due = time.monotonic() + 10
    while not (found := page.evaluate(expression)) and time.monotonic() < due:
        time.sleep(0.01)
    return float(found)


def _events(
    browser: Any, link: str, live: list[tuple[subprocess.Popen[bytes], Path]]
) -> list[float]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(_SEES)
    page.goto(link)
    page.get_by_text(f"{RUNS:,}").first.wait_for()
    for process, record in live:
        process.send_signal(signal.SIGTERM)
        page.locator(f'.row[data-id="{record.stem}"][data-state=stopping]').wait_for()
        time.sleep(random.uniform(0, 0.03))  # at no fixed place between two frames
    late = []
    for _, record in live:
        painted = _soon(page, f"window.seen['{record.stem} stopping']")
        late.append(painted - _recorded(record))
    context.close()
    return late


def _recorded(record: Path) -> float:
    """The wall time of the stop's line, in milliseconds."""
    from datetime import datetime

    for line in record.read_bytes().splitlines():
        told = json.loads(line)
        if told["event"] == "stop":
            return datetime.fromisoformat(told["time"]).timestamp() * 1000
    raise RuntimeError(f"no stop in {record}")


def _memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10
