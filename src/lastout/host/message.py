"""A message of the caller, and what became of it."""

from __future__ import annotations

from typing import Final

import anyio

from lastout.host.ledger import ENDED, KeptMessage, MessageState

__all__ = ["KEPT", "Message"]

KEPT: Final = 1 << 20
"""Characters of an answer that are kept; the agent's transcript has all of it."""


class Message:
    """A message that a conversation has taken. `done` waits until somebody can say how it ended.

    `completed`, `interrupted` and `failed` say how its turn ended: it was delivered, to one agent.
    `returned` means that no agent has it; `reason` says why, and sending it again is safe.
    """

    def __init__(self, kept: KeptMessage) -> None:
        self.id = kept.id
        self.text = kept.text
        self.state: MessageState = kept.state
        self.reason = kept.reason
        self.turn = kept.turn
        """The agent's own name of the turn, for a rewind."""
        self.run = kept.run
        """The run of the agent that it was delivered to."""
        self._answer = [kept.answer]
        self._length = len(kept.answer)
        self._settled = anyio.Event()
        if self.state in ENDED:
            self._settled.set()

    async def done(self) -> Message:
        """Wait for the end; gives the message itself."""
        await self._settled.wait()
        return self

    @property
    def answer(self) -> str:
        """The text of the answer as far as it has come; of a very long one the end."""
        if len(self._answer) > 1:
            self._answer = ["".join(self._answer)[-KEPT:]]
            self._length = len(self._answer[0])
        return self._answer[0]

    @property
    def settled(self) -> bool:
        """Whether it has ended."""
        return self._settled.is_set()

    def _hear(self, text: str) -> None:
        self._answer.append(text)
        self._length += len(text)
        if self._length > 2 * KEPT:
            _ = self.answer  # cuts it

    def _end(self) -> None:
        self._settled.set()

    def __repr__(self) -> str:
        because = f", {self.reason!r}" if self.reason else ""
        return f"<Message {self.id!r} {self.state}{because}>"
