"""Budgets: named presets for the graces, their maxima, and the bound that callers derive from."""

from __future__ import annotations

import re
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from harness import Scene
from harness.run import between_ms

PRESETS = {
    "default": (1000, 3000, 1500),
    "mcp": (1000, 2000, 500),
    "acp": (1000, 2000, 500),
    "codex-sdk": (300, 1200, 300),
    "jupyter": (1000, 1800, 400),
    "claude-sdk": (1000, 3000, 500),
    "trio": (1000, 3000, 500),
    "instant": (0, 0, 1500),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_the_three_graces(scene: Scene, name: str) -> None:
    run = scene.run("root exit=0", "--budget", name, graces=None)
    run.ends(code=0)
    s = run.started
    graces = (s["stdin_grace_ms"], s["term_grace_ms"], s["reap_bound_ms"])
    assert graces == PRESETS[name]
    assert s["max_stop_ms"] == sum(graces)


def test_without_one_it_is_the_default(scene: Scene) -> None:
    run = scene.run("root exit=0", graces=None)
    run.ends(code=0)
    assert run.started["max_stop_ms"] == 5500


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_grace_given_beside_a_preset_wins(scene: Scene, order: str) -> None:
    words = ["--budget", "mcp"]
    grace = ["--term-grace", "0.7"]
    options = [*grace, *words] if order == "before" else [*words, *grace]
    run = scene.run("root exit=0", *options, graces=None)
    run.ends(code=0)
    assert (run.started["term_grace_ms"], run.started["reap_bound_ms"]) == (700, 500)


def test_the_presets_are_those_of_the_reference() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "supervisor.md").read_text()
    line = next(line for line in text.splitlines() if "`--budget NAME`" in line)
    for name, graces in PRESETS.items():
        said = "/".join(f"{ms / 1000:g}" for ms in graces)
        assert re.search(rf"`{name}`[^;]*?{re.escape(said)}", line), (name, said)


def test_maxima_are_accepted(scene: Scene) -> None:
    run = scene.run("root exit=0", graces=(10, 30, 5))
    run.ends(code=0)
    assert run.started["max_stop_ms"] == 45000


def test_instant_kills_at_once(scene: Scene) -> None:
    run = scene.run("root note=TERM [daemon left ignore ]", "--budget", "instant", graces=None)
    root = scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert root.arrivals(SIGTERM) == 0
    assert run.event("root-exited")["signal"] == "KILL"


def test_jupyter_passes_the_interrupt_on(scene: Scene) -> None:
    run = scene.run("root note=INT", "--budget", "jupyter", graces=None)
    root = scene.member("root")
    run.signal(2)  # type: ignore[arg-type]
    scene.until(lambda: root.arrivals(2), "INT")  # type: ignore[arg-type]
    assert root.alive()
    assert not run.all("stop")
    root.tell("exit 0")
    run.ends(code=0)


@pytest.mark.parametrize("tree", ["root ignore", "root ignore [daemon left ignore ]"])
def test_a_stop_ends_within_its_own_bound(scene: Scene, tree: str) -> None:
    run = scene.run(tree)
    scene.member("root")
    run.close_stdin()
    run.ends(signal=SIGKILL)
    stop, gone = run.event("stop"), run.event("tree-gone")
    # The bound, and room for a slow machine: it is the order of magnitude that is asserted.
    assert between_ms(stop, gone) < run.started["max_stop_ms"] + 2000
    assert gone["stop_ms"] >= 700
