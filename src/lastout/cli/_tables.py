"""How the commands show tables: durations, and cells as aligned columns."""

from __future__ import annotations

__all__ = ["age", "columns"]


def age(seconds: float | None) -> str:
    """A duration as people read it."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of cells as aligned lines; the last column is as long as it is."""
    from lastout.evidence.words.parts import visible

    shown = [tuple(cell if cell.isprintable() else visible(cell) for cell in row) for row in rows]
    widths = [max(len(row[number]) for row in shown) for number in range(len(shown[0]))]
    return [
        "  ".join(
            cell if number == len(row) - 1 else cell.ljust(widths[number])
            for number, cell in enumerate(row)
        ).rstrip()
        for row in shown
    ]
