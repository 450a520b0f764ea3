"""Trees that more than one file of tests puts below a supervisor."""

from __future__ import annotations

from harness.run import Run
from harness.scene import Scene

POLITE = "root term=clean:200:0 [ child ignore ] [daemon escapee ignore ]"
STUBBORN = "root ignore [ child ignore ] [daemon escapee ignore ]"


def started(scene: Scene, play: str, **more: object) -> Run:
    """A run whose tree is complete; front, keeper and root are pinned while they live."""
    run = scene.run(play, **more)  # type: ignore[arg-type]
    scene.member("root")
    run.front, run.keeper, run.root  # noqa: B018
    return run


def all_gone(run: Run) -> None:
    """Front and keeper have ended, and nobody of the tree is left."""
    run.wait()
    run.keeper.wait_gone()
    run.nobody_left()
