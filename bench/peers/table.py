"""The table: every wrapper through every scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .cell import Cell, run_cell
from .scenarios import SCENARIOS
from .wrappers import Skipped, Wrapper

AT_ONCE = 6  # cells wait far more than they work
SETTLE = 0.1  # s after a peer's end for the kernel to finish what it began; we ask none for us


def fill(
    wrappers: Sequence[Wrapper | Skipped],
    *,
    grace: float,
    patience: float,
    progress: Callable[[str], None],
) -> dict[str, list[Cell | str]]:
    """All cells by wrapper name; a string where a cell could not be had, saying why."""

    def one(wrapper: Wrapper, index: int) -> Cell | str:
        try:
            settle = 0 if wrapper.ours else SETTLE
            return run_cell(
                wrapper, SCENARIOS[index], grace=grace, patience=patience, settle=settle
            )
        except RuntimeError as problem:
            return f"? {problem}"

    rows: dict[str, list[Cell | str]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = {
            wrapper.name: [pool.submit(one, wrapper, index) for index in range(len(SCENARIOS))]
            for wrapper in wrappers
            if isinstance(wrapper, Wrapper)
        }
        for name, cells in waiting.items():
            rows[name] = [cell.result() for cell in cells]
            progress(f"{name}: {', '.join(str(cell) for cell in rows[name])}")
    return rows


def markdown(rows: dict[str, list[Cell | str]], wrappers: Sequence[Wrapper | Skipped]) -> str:
    """The table as people read it, the skipped ones named below it."""
    titles = [f"{scenario.name} {scenario.title}" for scenario in SCENARIOS]
    lines = [
        "| wrapper | " + " | ".join(titles) + " | wrapper's status on TERM |",
        "|---" * (len(titles) + 2) + "|",
    ]
    for name, cells in rows.items():
        first = cells[0]
        status = first.status_text if isinstance(first, Cell) else "?"
        lines.append(f"| {name} | " + " | ".join(str(cell) for cell in cells) + f" | {status} |")
    skipped = [each for each in wrappers if isinstance(each, Skipped)]
    if skipped:
        lines += [
            "",
            "Not measured here: " + "; ".join(f"{s.name} ({s.why})" for s in skipped) + ".",
        ]
    return "\n".join(lines)


def as_data(rows: dict[str, list[Cell | str]]) -> dict[str, object]:
    """The same for programs."""

    def plain(cell: Cell | str) -> object:
        if isinstance(cell, str):
            return {"problem": cell}
        return {
            "survivors": cell.survivors,
            "wrapper_ended_s": cell.wrapper_ended,
            "wrapper_status": cell.status,
            "root_signals": cell.root_signals,
            "root_ended_s": cell.root_ended,
        }

    return {
        name: {scenario.name: plain(cell) for scenario, cell in zip(SCENARIOS, cells, strict=True)}
        for name, cells in rows.items()
    }
