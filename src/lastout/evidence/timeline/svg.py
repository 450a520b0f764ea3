"""The picture as one SVG file: no scripts, no fonts of its own, readable in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lastout.evidence.timeline.model import Arrow, Axis, Lane, Picture

__all__ = ["draw"]

_WIDTH, _NAMES, _RIGHT = 1040, 190, 110
_TOP, _ROW, _FOOT = 92, 30, 84
_STYLE = """
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}.dim{fill:#57606a}.small{font-size:11px}
.bg{fill:#ffffff}.grid{stroke:#d0d7de;stroke-width:1;stroke-dasharray:2 3}
.owner{stroke:#8c959f}.front,.keeper{stroke:#54aeff}.root{stroke:#1a7f37}.member{stroke:#bf8700}
.command{stroke:#8250df}.life{stroke-width:5;stroke-linecap:butt}
.thin{stroke-width:2;stroke-dasharray:3 3}
.stdin{fill:#ddf4ff}.term{fill:#fff1c9}.kill{fill:#ffd8d3}
.arrow{stroke:#cf222e;stroke-width:1.5;fill:none}.head{fill:#cf222e}.sig{fill:#cf222e}
.failed{stroke-dasharray:3 3}.open{fill:#8c959f;stroke:none}
.halo{paint-order:stroke;stroke:#fff;stroke-width:3;stroke-opacity:.8}
@media (prefers-color-scheme: dark){text{fill:#e6edf3}.dim{fill:#8d96a0}.bg{fill:#0d1117}
.grid{stroke:#30363d}.stdin{fill:#0c2d4d}.term{fill:#3a2d05}.kill{fill:#47130f}
.halo{stroke:#0d1117}.arrow{stroke:#ff7b72}.head,.sig{fill:#ff7b72}}
""".strip()
_BAND_CLASS = {"stdin end": "stdin", "SIGTERM": "term", "SIGKILL": "kill"}


def draw(picture: Picture) -> str:
    """The SVG document as text."""
    rows = _label_rows(picture)
    top = _TOP + 16 * max(rows.values(), default=0)
    height = top + _ROW * len(picture.lanes) + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" ',
        f'width="{_WIDTH}" height="{height}">',
        f"<title>{escape(picture.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="bg" width="{_WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(picture.title)}</text>',
        f'<text class="dim small" x="16" y="44">{escape(picture.run)}</text>',
    ]
    if picture.lanes:
        axis = picture.place()
        parts += _bands(picture, axis, top)
        parts += _ticks(picture, axis, top)
        for index, lane in enumerate(picture.lanes):
            parts += _lane(lane, axis, top + _ROW * index + _ROW // 2)
        parts += _arrows(picture, axis, top, rows)
        note = (
            "Distances grow with the logarithm of time. Thin: not seen. Dashed end: over by then."
        )
        if picture.omitted:
            note += f" {picture.omitted} more are not drawn."
        parts.append(f'<text class="dim small" x="16" y="{height - 12}">{escape(note)}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _x(axis: Axis, at: int) -> float:
    return round(_NAMES + axis(at) * (_WIDTH - _NAMES - _RIGHT), 1)


def _bands(picture: Picture, axis: Axis, top: int) -> Iterator[str]:
    height = _ROW * len(picture.lanes)
    for band in picture.bands:
        first, last = _x(axis, band.begin), _x(axis, band.end)
        width = max(last - first, 3)
        seconds = (band.end - band.begin) / 1e9
        yield (
            f'<rect class="{_BAND_CLASS[band.name]}" x="{first}" y="{top - 4}" width="{width}" '
            f'height="{height + 8}"><title>{band.name}: {seconds:.3f} s</title></rect>'
        )
        yield f'<text class="dim small" x="{first + 4}" y="{top + height + 16}">{band.name}</text>'


def _ticks(picture: Picture, axis: Axis, top: int) -> Iterator[str]:
    bottom = top + _ROW * len(picture.lanes)
    free = {0: 0.0, 1: 0.0}
    for mark in sorted(picture.marks, key=lambda mark: mark.at):
        x = _x(axis, mark.at)
        yield f'<line class="grid" x1="{x}" y1="{top - 4}" x2="{x}" y2="{bottom + 4}"/>'
        text = f"{(mark.at - picture.begin) / 1e9:.3f} s {mark.label}"
        width = 6.4 * len(text)
        at = min(x, _WIDTH - width - 4)
        row = next((row for row in free if free[row] <= at), None)
        if row is not None:
            free[row] = at + width + 10
            y = bottom + 34 + 16 * row
            yield f'<text class="small" x="{at}" y="{y}">{escape(text)}</text>'


def _lane(lane: Lane, axis: Axis, y: int) -> Iterator[str]:
    first, sure = _x(axis, lane.begin), _x(axis, lane.sure_from)
    last = _WIDTH - _RIGHT if lane.end is None else max(_x(axis, lane.end), first + 3)
    indent = 14 if lane.role in ("member", "command") else 0
    name = ("$ " if lane.role == "command" else "") + lane.name
    yield f'<text x="{16 + indent}" y="{y + 4}">{escape(name[:26])}</text>'
    if sure > first:
        yield f'<line class="{lane.role} thin" x1="{first}" y1="{y}" x2="{sure}" y2="{y}"/>'
    if last > sure:
        yield f'<line class="{lane.role} life" x1="{sure}" y1="{y}" x2="{last}" y2="{y}"/>'
    if lane.end is None:
        points = f"{last},{y - 6} {last + 9},{y} {last},{y + 6}"
        yield f'<polygon class="{lane.role} open" points="{points}"/>'
    else:
        dashed = "" if lane.end_sure else ' stroke-dasharray="2 2"'
        yield (
            f'<line class="{lane.role}" stroke-width="2"{dashed} x1="{last}" y1="{y - 9}" '
            f'x2="{last}" y2="{y + 9}"/>'
        )
    if lane.label:
        yield f'<text class="small halo" x="{last + 8}" y="{y + 4}">{escape(lane.label)}</text>'


def _label_rows(picture: Picture) -> dict[tuple[int, str], int]:
    """In which row above the lanes each signal's label has room."""
    if not picture.lanes:
        return {}
    axis = picture.place()
    rows: dict[tuple[int, str], int] = {}
    free: list[float] = []
    for arrow in sorted(picture.arrows, key=lambda arrow: arrow.at):
        key = (arrow.at, arrow.label)
        if key in rows:
            continue
        x = _x(axis, arrow.at)
        row = next((i for i, end in enumerate(free) if end <= x), len(free))
        if row == len(free):
            free.append(0.0)
        free[row] = x + 7.0 * len(arrow.label) + 8
        rows[key] = row
    return rows


def _arrows(
    picture: Picture, axis: Axis, top: int, rows: dict[tuple[int, str], int]
) -> Iterator[str]:
    labelled: set[tuple[int, str]] = set()
    for arrow in picture.arrows:
        x = _x(axis, arrow.at)
        label_y = top - 12 - 16 * rows[arrow.at, arrow.label]
        target = top + _ROW * arrow.target + _ROW // 2
        source = label_y + 3 if arrow.source is None else top + _ROW * arrow.source + _ROW // 2
        if (arrow.at, arrow.label) not in labelled:
            labelled.add((arrow.at, arrow.label))
            yield f'<text class="sig small" x="{x + 3}" y="{label_y}">{escape(arrow.label)}</text>'
            yield f'<line class="grid" x1="{x}" y1="{label_y + 3}" x2="{x}" y2="{top}"/>'
        yield from _shaft(arrow, x, source, target)


def _shaft(arrow: Arrow, x: float, source: int, target: int) -> Iterator[str]:
    down = target >= source
    tip = target - 5 if down else target + 5
    back = tip - 7 if down else tip + 7
    failed = " failed" if arrow.failed else ""
    yield f'<line class="arrow{failed}" x1="{x}" y1="{source}" x2="{x}" y2="{back}"/>'
    yield f'<polygon class="head" points="{x},{tip} {x - 4},{back} {x + 4},{back}"/>'
