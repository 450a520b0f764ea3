"""Codex: `codex app-server`, one process a conversation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lastout.agents import install
from lastout.agents.adapter import Plan, Program, Writer
from lastout.agents.codex_dialogue import CodexDialogue
from lastout.agents.dialogue import Ability, Start
from lastout.agents.holders import lock_holder
from lastout.graces import Graces

__all__ = ["OLDEST", "Codex"]

OLDEST: Final = "0.166.0"
"""The first version whose threads have a writer lock with the refusal that a resume waits out."""


class Codex:
    """Codex app-server. `args` go after `app-server`, `env` replaces ours."""

    name = "codex"
    # An app-server that was started a moment ago, with no way to any host, takes up to 4.2 s to
    # exit after its stdin's end: 4.5 s before SIGKILL lets it.
    graces = Graces(stdin=1.5, term=3.0, reap=1.0)
    offers = frozenset(
        {
            Ability.RESUME,
            Ability.INTERRUPT,
            Ability.CONFIGURE,
            Ability.REWIND,
            Ability.GOAL,
            Ability.STOP_TASK,
        }
    )
    one_turn = False
    rewinds_at_start = False
    # Measured with 0.171: every later call fails with "Transport closed".
    restarts_servers = False
    follows_up = False
    has_lock = True

    def __init__(
        self,
        program: str | None = None,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._program = program
        self._args = tuple(args)
        self._env = dict(env) if env is not None else None

    async def find(self) -> Program:
        """The native `codex`, also where only npm's wrapper is on PATH."""
        return await install.find(
            "codex", given=self._program, env=self._env, package="@openai/codex", oldest=OLDEST
        )

    def plan(self, program: Program, start: Start) -> Plan:
        """`codex app-server` over stdio."""
        argv = (program.path, "app-server", *self._args)
        return Plan(argv, self._env, CodexDialogue(start), start.resume)

    def writer(self, conversation: str, own: frozenset[int]) -> Writer | None:
        """The holder of the thread's lock. That the lock's file exists means nothing."""
        holder = lock_holder(str(self._home() / "thread-writer-locks" / f"{conversation}.lock"))
        return None if holder is None or holder.pid in own else holder

    def knows(self, conversation: str, message: str) -> bool | None:
        """Whether the thread's rollout has the message, by the client id that we gave it."""
        wanted = f'"{message}"'.encode()
        try:
            for path in self._home().glob(f"sessions/*/*/*/rollout-*{conversation}*.jsonl"):
                if wanted in path.read_bytes():
                    return True
        except OSError:
            return None
        return False

    def rewind_mark(self, conversation: str, turn: str) -> str | None:
        """Codex rewinds by request."""
        return turn

    def _home(self) -> Path:
        env = self._env if self._env is not None else os.environ
        return Path(env.get("CODEX_HOME") or Path(env.get("HOME", "~")).expanduser() / ".codex")
