"""Any agent that speaks the Agent Client Protocol over stdio."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from lastout.agents import install
from lastout.agents.acp_dialogue import AcpDialogue
from lastout.agents.adapter import AgentMissing, Plan, Program, Writer
from lastout.agents.dialogue import Ability, Start
from lastout.graces import PRESETS

__all__ = ["Acp"]


class Acp:
    """An ACP agent by its command line: `Acp(["claude-agent-acp"])`. `env` replaces ours."""

    name = "acp"
    graces = PRESETS["acp"]
    offers = frozenset({Ability.RESUME, Ability.INTERRUPT, Ability.CONFIGURE})
    one_turn = False
    rewinds_at_start = False
    restarts_servers = False
    follows_up = False
    has_lock = False

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        if not argv:
            raise ValueError("an ACP agent needs its command line")
        self._argv = tuple(argv)
        self._env = dict(env) if env is not None else None

    async def find(self) -> Program:
        """The program; adapters written for Node are scripts, and their agent is their child.

        That is said.
        """
        path = shutil.which(self._argv[0], path=(self._env or os.environ).get("PATH"))
        if path is None:
            raise AgentMissing(
                f"{self._argv[0]} was not found, or is not executable: name its path"
            )
        notice = None
        if not install.is_native(path):
            notice = (
                f"{path} is a script: the agent that it starts is its child, and ends with the tree"
            )
        return Program(path, None, notice, notice is not None)

    def plan(self, program: Program, start: Start) -> Plan:
        """The command line as it was given."""
        return Plan((program.path, *self._argv[1:]), self._env, AcpDialogue(start), start.resume)

    def writer(self, conversation: str, own: frozenset[int]) -> Writer | None:
        """The protocol knows no locks."""
        return None

    def knows(self, conversation: str, message: str) -> bool | None:
        """The protocol has no way to ask."""
        return None

    def rewind_mark(self, conversation: str, turn: str) -> str | None:
        """The protocol cannot rewind."""
        raise LookupError("the Agent Client Protocol cannot rewind")
