"""What a host finds of hosts before it: their agents, and the messages that they had taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lastout.agents.adapter import Adapter
from lastout.host import sentences
from lastout.host.ledger import Kept, KeptMessage, Ledger
from lastout.identity import Alive, still_alive

__all__ = ["Found", "settle_orphans"]


@dataclass(frozen=True, slots=True)
class Found:
    """One conversation that had an agent when this host started.

    `verdict` is what is known of that agent now; None when it was left alone, because its owner is
    alive, and `left` says whose it is.
    """

    key: str
    run: str
    verdict: str | None
    how: str
    left: str | None = None


def settle_orphans(
    ledger: Ledger, key: str | None, adapter_of: Callable[[Kept], Adapter | None]
) -> list[KeptMessage]:
    """Say what became of messages whose host is gone; call it when the agents are dealt with."""
    settled = []
    for message in ledger.open_messages(key):
        if message.host is not None and still_alive(message.host) is not Alive.NO:
            continue
        kept = ledger.conversation(message.key)
        adapter = adapter_of(kept) if kept is not None else None
        _settle(ledger, kept, adapter, message)
        settled.append(message)
    return settled


def _settle(
    ledger: Ledger, kept: Kept | None, adapter: Adapter | None, message: KeptMessage
) -> None:
    match message.state:
        case "queued":
            ledger.move(message.key, message.id, "returned", reason=sentences.HOST_ENDED)
        case "delivered":
            ledger.move(message.key, message.id, "interrupted", reason=sentences.TURN_LOST)
        case _:
            taken = None
            name = (kept.native or kept.opened) if kept is not None else None
            if adapter is not None and name is not None:
                taken = adapter.knows(name, message.id)
            if taken and kept is not None:
                ledger.keep(replace(kept, native=name))
                ledger.move(message.key, message.id, "interrupted", reason=sentences.TURN_LOST)
                return
            known = sentences.NOT_TAKEN if taken is False else sentences.PERHAPS_TAKEN
            reason = f"{sentences.TURN_LOST}; {known}"
            ledger.move(message.key, message.id, "returned", reason=reason)
