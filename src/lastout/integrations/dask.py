"""dask workers under the supervisor: a `SubprocessWorker` that gets SIGTERM and its grace."""

from __future__ import annotations

import json
import sys
from typing import Any

from distributed.deploy.spec import ProcessInterface

__all__ = ["Worker", "worker_argv"]


def worker_argv(scheduler: str, worker_class: str, worker_kwargs: dict[str, Any]) -> list[str]:
    """The command of one worker, by dask's documented `dask spec`."""
    spec = json.dumps({"cls": worker_class, "opts": worker_kwargs})
    return [sys.executable, "-m", "dask", "spec", scheduler, "--spec", spec]


class Worker(ProcessInterface):
    """For a `SpecCluster`: `{"cls": Worker, "options": {"worker_kwargs": {...}}}`.

    The worker is stopped by the ladder when the cluster closes it, and when the process that made
    the cluster dies. Other options (`graces`, ...) are `open_process`'s; `argv` is for a worker that
    is started by another command.
    """

    def __init__(
        self,
        scheduler: str,
        worker_class: str = "distributed.Nanny",
        name: str | None = None,
        worker_kwargs: dict[str, Any] | None = None,
        argv: list[str] | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        self._argv = argv or worker_argv(scheduler, worker_class, dict(worker_kwargs or {}))
        self._options = options
        self._context: Any = None
        self.process: Any = None
        super().__init__(scheduler=scheduler, name=name)

    async def start(self) -> None:
        """Start the worker. Raises as `open_process` does."""
        from lastout.process import open_process

        # Its stdin is ours, as with every dask worker: no end of it is meant for the worker.
        options = {"stdin": None, "stdout": None, "stdin_end": "ignore", **self._options}
        self._context = open_process(self._argv, **options)
        self.process = await self._context.__aenter__()
        await super().start()

    async def close(self) -> None:
        """Stop the worker; returns when nothing of it is alive."""
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)
        await super().close()
