"""Codex's app-server under the supervisor, for the `openai-codex` SDK."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lastout.graces import Graces
from lastout.integrations.reusable import reusable

__all__ = ["launch_args"]


def launch_args(
    codex_bin: str | os.PathLike[str] | None = None,
    *,
    config_overrides: Sequence[str] = (),
    graces: Graces | str = "codex-sdk",
    state: str | os.PathLike[str] | None = None,
) -> tuple[str, ...]:
    """For `CodexConfig(launch_args_override=...)`; the SDK then ignores its own `codex_bin` and
    `config_overrides`, so they are given here.

    Without `codex_bin` it is the native program that comes with the SDK: in front of npm's wrapper
    the supervisor would be the wrapper's parent, not the agent's. The preset's ladder ends inside
    the SDK's patience of 2 s. Raises FileNotFoundError when there is no such program.
    """
    if codex_bin is None:
        from codex_cli_bin import bundled_codex_path

        codex_bin = bundled_codex_path()
    overrides = [word for entry in config_overrides for word in ("--config", entry)]
    argv = [os.fspath(codex_bin), *overrides, "app-server", "--listen", "stdio://"]
    return tuple(reusable(argv, graces=graces, state=state))
