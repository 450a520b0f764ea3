"""The picture in a terminal: one row a process, the ladder above, the signals below."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

from lastout.evidence.timeline.model import Axis, Band, Lane, Picture

__all__ = ["draw"]

_NAMES = 24
_UNICODE = {
    "line": "━",
    "thin": "┄",
    "end": "┥",
    "by": "╎",
    "open": "▸",
    "hit": "▼",
    "miss": "▽",
    "band": ("▁", "▒", "█"),
    "tick": "│",
}
_ASCII = {
    "line": "=",
    "thin": ".",
    "end": "|",
    "by": ":",
    "open": ">",
    "hit": "v",
    "miss": "x",
    "band": ("_", "-", "#"),
    "tick": "|",
}


def draw(picture: Picture, width: int | None = None, unicode: bool | None = None) -> Iterator[str]:
    """The rows. `unicode` False keeps to ASCII; by default stdout's encoding decides."""
    if not picture.lanes:
        yield picture.title
        return
    if unicode is None:
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 120)
    signs = _UNICODE if unicode else _ASCII
    space = max(20, width - _NAMES - 14)
    axis = picture.place()
    if picture.bands:
        yield from _ladder(picture, axis, space, signs)
    for index, lane in enumerate(picture.lanes):
        yield _row(picture, index, lane, axis, space, signs)
    if picture.omitted:
        yield f"{'':{_NAMES}} and {picture.omitted} more"
    yield from _times(picture, axis, space, signs)
    yield from _legend(picture)


def _column(axis: Axis, at: int, space: int) -> int:
    return min(space - 1, round(axis(at) * (space - 1)))


def _ladder(picture: Picture, axis: Axis, space: int, signs: dict[str, Any]) -> Iterator[str]:
    row = [" "] * space
    names = [" "] * space
    for band in picture.bands:
        sign = signs["band"][_level(band)]
        first, last = _column(axis, band.begin, space), _column(axis, band.end, space)
        for column in range(first, max(first + 1, last)):
            row[column] = sign
        _write(names, first, band.name)
    yield f"{'':{_NAMES}} {''.join(names).rstrip()}"
    yield f"{'ladder':<{_NAMES}} {''.join(row).rstrip()}"


def _level(band: Band) -> int:
    return {"stdin end": 0, "SIGTERM": 1}.get(band.name, 2)


def _row(
    picture: Picture, index: int, lane: Lane, axis: Axis, space: int, signs: dict[str, Any]
) -> str:
    row = [" "] * space
    first, sure = _column(axis, lane.begin, space), _column(axis, lane.sure_from, space)
    last = space - 1 if lane.end is None else _column(axis, lane.end, space)
    for column in range(first, last + 1):
        row[column] = signs["thin"] if column < sure else signs["line"]
    row[last] = (
        signs["open"] if lane.end is None else signs["end"] if lane.end_sure else signs["by"]
    )
    for arrow in picture.arrows:
        if arrow.target == index:
            row[_column(axis, arrow.at, space)] = signs["miss" if arrow.failed else "hit"]
    prefix = {"member": "  ", "command": "  $ "}.get(lane.role, "")
    text = prefix + lane.name
    return f"{text[:_NAMES]:<{_NAMES}} {''.join(row)} {lane.label}".rstrip()


def _times(picture: Picture, axis: Axis, space: int, signs: dict[str, Any]) -> Iterator[str]:
    """Ticks where something happened, as many as have room."""
    row, texts = [" "] * space, [" "] * (space + 12)
    free = 0
    moments = sorted({mark.at for mark in picture.marks} | {picture.begin, picture.end})
    for at in moments:
        column = _column(axis, at, space)
        text = f"{(at - picture.begin) / 1e9:.3f}s"
        if column < free:
            continue
        row[column] = signs["tick"]
        _write(texts, column, text)
        free = column + len(text) + 1
    yield f"{'':{_NAMES}} {''.join(row).rstrip()}"
    yield f"{'':{_NAMES}} {''.join(texts).rstrip()}"


def _legend(picture: Picture) -> Iterator[str]:
    """What the arrows are, in time order: equal ones at one moment once."""
    told = set()
    for arrow in sorted(picture.arrows, key=lambda arrow: arrow.at):
        key = (arrow.at, arrow.label, arrow.source)
        if key in told:
            continue
        told.add(key)
        targets = [
            picture.lanes[other.target].name
            for other in picture.arrows
            if (other.at, other.label, other.source) == key
        ]
        source = "?" if arrow.source is None else picture.lanes[arrow.source].name
        at = (arrow.at - picture.begin) / 1e9
        failed = " (failed)" if arrow.failed else ""
        names = ", ".join(targets[:6])
        yield f"{'':{_NAMES}} {at:8.3f}s {arrow.label}: {source} -> {names}{failed}"


def _write(row: list[str], column: int, text: str) -> None:
    for offset, char in enumerate(text):
        if column + offset < len(row):
            row[column + offset] = char
