"""Claude Code: `claude -p` with stream-json on both sides, one process a conversation."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from lastout.agents import claude_files, install
from lastout.agents.adapter import Plan, Program, Writer
from lastout.agents.claude_dialogue import ClaudeDialogue, message_uuid
from lastout.agents.dialogue import Ability, Start
from lastout.graces import Graces

__all__ = ["OLDEST", "Claude"]

OLDEST: Final = "2.1.197"
"""The oldest version that was run against this adapter."""


class Claude:
    """Claude Code. `args` go at the end of its command line, `env` replaces ours."""

    name = "claude"
    # Measured: its longest exit after SIGTERM is 2.0 s; 1.25 s were not enough for tools that
    # ignore SIGTERM.
    graces = Graces(stdin=1.0, term=3.0, reap=1.5)
    offers = frozenset(
        {Ability.RESUME, Ability.INTERRUPT, Ability.CONFIGURE, Ability.REWIND, Ability.STOP_TASK}
    )
    one_turn = False
    rewinds_at_start = True
    # Measured with 2.1.332: also after SIGKILL, and turn after turn.
    restarts_servers = True
    follows_up = True
    has_lock = False

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
        self._config = claude_files.config_dir(claude_files.environment(self._env))

    async def find(self) -> Program:
        """The native `claude`."""
        return await install.find(
            "claude",
            given=self._program,
            env=self._env,
            package="@anthropic-ai/claude-code",
            oldest=OLDEST,
        )

    def plan(self, program: Program, start: Start) -> Plan:
        """A new session gets its id from us, so that it has a name before its first word.

        Claude writes a transcript some time after it took a message up. Killed before, it has
        nothing to resume, and is started anew under the same id.
        """
        session = start.resume or str(uuid.uuid4())
        resumes = start.resume is not None and (
            claude_files.transcript(self._config, session) is not None
        )
        argv = [
            program.path,
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
            "--replay-user-messages",
            "--permission-prompt-tool",
            "stdio",
        ]
        argv += ["--resume" if resumes else "--session-id", session]
        if resumes and start.rewind_to is not None:
            argv += ["--resume-session-at", start.rewind_to]
        for option, flag in (
            ("model", "--model"),
            ("effort", "--effort"),
            ("approval", "--permission-mode"),
        ):
            value = getattr(start.options, option)
            if value is not None:
                argv += [flag, value]
        return Plan(
            (*argv, *self._args), self._env, ClaudeDialogue(start, session, resumes), session
        )

    def writer(self, conversation: str, own: frozenset[int]) -> Writer | None:
        """A live process that is in this session, a user's own `claude` for instance.

        Claude itself asks nobody.
        """
        return next(
            (w for w in claude_files.live_writers(self._config, conversation) if w.pid not in own),
            None,
        )

    def knows(self, conversation: str, message: str) -> bool | None:
        """Whether the transcript has the message, by the uuid that we gave it."""
        return claude_files.transcript_has(self._config, conversation, message_uuid(message))

    def rewind_mark(self, conversation: str, turn: str) -> str | None:
        """The message before the turn's own."""
        return claude_files.mark_before(self._config, conversation, turn)
