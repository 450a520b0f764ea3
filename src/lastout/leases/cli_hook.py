"""What `lastout run --key` does before it becomes the supervisor: reserve the key.

This process turns into the front by exec and keeps pid, start time and inode, so the reservation
names the front already. Everything later is in the run's record, and whoever asks next reads it
there: no Python stays to write it into the store.
"""

from __future__ import annotations

import os

from lastout import identity
from lastout.identity import ProcessIdentity
from lastout.leases.refusals import LeaseError

__all__ = ["reserve"]


def reserve(
    key: str,
    *,
    run: str,
    record: str | None,
    state: str | None,
    owner: str | None = None,
    wait: bool = False,
) -> list[str]:
    """The supervisor's options for a run that alone may write to `key`.

    `owner` is what `--owner` said; `wait` waits for a holder that is alive, for as long as it
    takes. Raises ValueError with the refusal in one sentence, OSError.
    """
    from lastout.sole_writer import acquire, open_store

    if record is None:
        raise ValueError("--key needs the record, by which the run is recognised later")
    try:
        grant = acquire(
            key,
            state=state,
            run=run,
            record=record,
            owner=_owner(owner),
            front=identity.take(os.getpid()),
            wait=None if wait else 0.0,
        )
        open_store(state).close()
    except LeaseError as error:
        raise ValueError(str(error)) from error
    return ["--lock", grant.lock, "--epoch", str(grant.epoch)]


def _owner(option: str | None) -> ProcessIdentity | None:
    """Whose run it will be: as told, or whoever started this command."""
    if option == "none":
        return None
    pid = os.getppid()
    if option is not None:
        word = option.partition(":")[0]
        if not word.isdigit():
            raise ValueError(f"--owner takes PID:START or none, not {option!r}")
        pid = int(word)
    try:
        return identity.take(pid)
    except OSError:
        return None  # pid 1 of another namespace, or gone: the supervisor says what that means
