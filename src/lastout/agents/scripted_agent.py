"""The built-in agent that obeys a script, for demonstrations and tests.

It is driven by Codex's dialogue, because it speaks Codex's protocol; see `lastout.agents.scripted`
for what it can do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import lastout
from lastout.agents.adapter import Plan, Program
from lastout.agents.codex import Codex
from lastout.agents.codex_dialogue import CodexDialogue
from lastout.agents.dialogue import Start
from lastout.graces import DEFAULT, Graces

__all__ = ["Scripted"]

_MAIN: Final = "from lastout.agents.scripted.program import main; main()"


class Scripted(Codex):
    """The scripted agent, with its transcripts and locks below `home`; `args` are its options."""

    name = "scripted"
    graces = DEFAULT

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        graces: Graces | None = None,
    ) -> None:
        super().__init__(args=args, env=env)
        self._scripted_home = Path(home)
        if graces is not None:
            self.graces = graces

    async def find(self) -> Program:
        """This interpreter."""
        return Program(sys.executable)

    def plan(self, program: Program, start: Start) -> Plan:
        """Isolated: nothing around it reaches it; without `site`: it starts in 30 ms."""
        root = str(Path(lastout.__file__).parent.parent)
        code = f"import sys; sys.path.insert(0, {root!r}); {_MAIN}"
        argv = (program.path, "-I", "-S", "-c", code, "--home", str(self._scripted_home))
        return Plan((*argv, *self._args), self._env, CodexDialogue(start), start.resume)

    def _home(self) -> Path:
        return self._scripted_home
