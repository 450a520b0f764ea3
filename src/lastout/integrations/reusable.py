"""A command line that may be started many times: every start is a run of its own, with a record."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal

from lastout.graces import Graces
from lastout.supervisor import Argument, grace_options, plain_argv

__all__ = ["reusable"]


def reusable(
    argv: Sequence[Argument],
    *,
    graces: Graces | str | None = None,
    stdin_end: Literal["stop", "ignore"] = "stop",
    state: str | os.PathLike[str] | None = None,
) -> list[str]:
    """`argv` behind `lastout run`, by absolute path: hosts start servers with a short PATH.

    Raises ValueError or TypeError for what `lastout run` would refuse.
    """
    words = plain_argv(argv)
    # -P: the directory that a host happens to start it in is not searched for modules.
    options = [sys.executable, "-P", "-m", "lastout", "run", *grace_options(graces)]
    if state is not None:
        options += ["--state", os.path.abspath(state)]
    return [*options, "--stdin-end", stdin_end, "--", *words]
