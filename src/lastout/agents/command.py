"""A plain command as an agent.

Started once a turn, its input is the message, its output the answer.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence

from lastout.agents.adapter import AgentMissing, Plan, Program, Writer
from lastout.agents.command_dialogue import CommandDialogue
from lastout.agents.dialogue import Ability, Start
from lastout.graces import DEFAULT

__all__ = ["Command"]


class Command:
    """`Command(["sh"])`. The command remembers what it likes; a conversation is only its key."""

    name = "command"
    graces = DEFAULT
    offers = frozenset({Ability.RESUME, Ability.INTERRUPT})
    one_turn = True
    rewinds_at_start = False
    restarts_servers = False
    follows_up = False
    has_lock = False

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        if not argv:
            raise ValueError("a command needs its command line")
        self._argv = tuple(argv)
        self._env = dict(env) if env is not None else None

    async def find(self) -> Program:
        """The program, from PATH."""
        path = shutil.which(self._argv[0], path=(self._env or os.environ).get("PATH"))
        if path is None:
            raise AgentMissing(
                f"{self._argv[0]} was not found, or is not executable: name its path"
            )
        return Program(path)

    def plan(self, program: Program, start: Start) -> Plan:
        """The command line as it was given."""
        name = start.resume or str(uuid.uuid4())
        return Plan((program.path, *self._argv[1:]), self._env, CommandDialogue(start, name), name)

    def writer(self, conversation: str, own: frozenset[int]) -> Writer | None:
        """A plain command has no lock."""
        return None

    def knows(self, conversation: str, message: str) -> bool | None:
        """Nobody can say what a plain command remembers."""
        return None

    def rewind_mark(self, conversation: str, turn: str) -> str | None:
        """A plain command cannot rewind."""
        raise LookupError("a plain command has no history")
