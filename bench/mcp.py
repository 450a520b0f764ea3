"""What `lastout mcp` costs: until it has answered `initialize`, and what it adds to a call."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lastout
from lastout import jobs

from .measure import Number

_STARTS = 20


class _Client:
    """Plain JSON lines: what is measured is the server, not a client's library."""

    def __init__(self, state: Path) -> None:
        source = str(Path(lastout.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lastout", "mcp", "--state", str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                return answer

    def hello(self) -> None:
        client = {"name": "bench", "version": "1"}
        answer = self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client
        )
        assert "result" in answer, answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """Both. `rounds` is for the calls; starts are fewer."""
    with tempfile.TemporaryDirectory() as name:
        state = Path(name) / "state"
        return [_initialize(min(rounds, _STARTS), state, progress), _call(rounds, state, progress)]


def _initialize(rounds: int, state: Path, progress: Callable[[str], None]) -> Number:
    progress(f"mcp: {rounds} starts until `initialize` is answered")
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        client = _Client(state)
        client.hello()
        times.append(time.perf_counter() - began)
        client.close()
    return Number(
        "mcp: from the start to the answer of `initialize`, worst",
        max(times),
        1.5,
        "s",
        f"median {statistics.median(times):.2f} s of {rounds}, nearly all of it the SDK's import",
    )


def _call(rounds: int, state: Path, progress: Callable[[str], None]) -> Number:
    """The same look at the same job, with and without the server."""
    progress(f"mcp: {rounds} calls with and without the server, in turns")
    store = jobs.open_jobs(state)
    job = store.submit(jobs.Command(argv=("true",), by="bench"))
    job.wait(60)
    client = _Client(state)
    client.hello()
    plain, served = list[float](), list[float]()
    for _ in range(rounds):
        began = time.perf_counter()
        store.get(job.id).status()
        job.feed()
        between = time.perf_counter()
        answer = client.ask("tools/call", name="job_status", arguments={"job": job.id})
        served.append((time.perf_counter() - between) * 1000)
        plain.append((between - began) * 1000)
        assert answer["result"]["structuredContent"]["state"] == "ended", answer
    client.close()
    with_it, without = statistics.median(served), statistics.median(plain)
    return Number(
        "mcp: added to a call",
        with_it - without,
        10.0,
        "ms",
        f"medians of {rounds}, interleaved: {with_it:.2f} ms with, {without:.2f} ms without",
    )
