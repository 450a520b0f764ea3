"""What only the owner knows, into the record: what it was about to start, and for what."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lastout.evidence import journal
from lastout.evidence.events import Note, Prepared
from lastout.evidence.mask import MASK, env_names, looks_secret, mask_indices, mask_text, masked

__all__ = ["note", "prepared"]


def prepared(
    record: str | os.PathLike[str],
    run: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
) -> Prepared:
    """Write a `prepared` line: before the run starts, or as soon as its id is known.

    Arguments that look like secrets are masked, and so is what contains one of `also`. Of the
    environment only the names are written. `labels` is the caller's own, JSON-able; a label whose
    name says that it is a secret is masked too. Raises OSError.
    """
    return journal.append(
        record,
        Prepared,
        run,
        argv=masked(argv, mask_indices(argv, also)),
        env_names=() if env is None else env_names(env),
        labels={
            name: MASK if looks_secret(name) else mask_text(value) if _is_text(value) else value
            for name, value in (labels or {}).items()
        },
    )


def note(record: str | os.PathLike[str], run: str, text: str, **detail: Any) -> Note:
    """Write a `note` line: anything else that should be in the story. Raises OSError."""
    return journal.append(record, Note, run, text=mask_text(text), detail=detail or None)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
