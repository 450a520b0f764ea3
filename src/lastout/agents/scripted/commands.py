"""The scripted agent's tools: each in a session of its own, as real agents start theirs."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Commands"]


class Commands:
    """Runs shell commands, tells of their start and end, and ends them as Codex does."""

    def __init__(self, tell: Callable[[str, str | None, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = itertools.count(1)

    def run(self, command: str, turn: str | None, *, wait: bool = True) -> None:
        """Run one, and wait for it or not."""
        item = f"call_{os.getpid()}_{next(self._numbers)}"
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._running[item] = process
        fields: dict[str, Any] = {
            "type": "commandExecution",
            "id": item,
            "command": command,
            "cwd": os.getcwd(),
            "processId": str(process.pid),
            "commandActions": [],
            "status": "inProgress",
            "aggregatedOutput": None,
            "exitCode": None,
            "durationMs": None,
        }
        self._tell("item/started", turn, {"startedAtMs": 0, "item": fields})
        arguments = (process, fields, turn, time.monotonic())
        if wait:
            self._finish(*arguments)
        else:
            threading.Thread(target=self._finish, args=arguments, daemon=True).start()

    def escape(self, command: str) -> None:
        """Run one that is nobody's child: the processes between end at once."""
        inner = f"setsid sh -c {shlex.quote(command)} </dev/null >/dev/null 2>&1 &"
        subprocess.run(["setsid", "sh", "-c", inner], check=False)

    def kill(self) -> None:
        """The groups of the commands, nothing that has left them: as Codex does at its end."""
        for process in list(self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _finish(
        self,
        process: subprocess.Popen[bytes],
        fields: dict[str, Any],
        turn: str | None,
        began: float,
    ) -> None:
        output = process.communicate()[0].decode("utf-8", "replace")
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        self._running.pop(fields["id"])
        ended = fields | {
            "status": "failed" if code else "completed",
            "aggregatedOutput": output or None,
            "exitCode": code,
            "durationMs": round((time.monotonic() - began) * 1000),
        }
        self._tell("item/completed", turn, {"completedAtMs": 0, "item": ended})
