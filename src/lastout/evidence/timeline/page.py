"""The picture and the story on one HTML page that needs nothing else."""

from __future__ import annotations

from html import escape

from lastout.evidence.journal import Contents
from lastout.evidence.timeline.model import picture
from lastout.evidence.timeline.svg import draw
from lastout.evidence.why import story
from lastout.evidence.words import sentence

__all__ = ["page"]

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1060px;padding:0 1rem;
color:#24292f;background:#fff}
svg{max-width:100%;height:auto}table{border-collapse:collapse;margin-top:1rem}
td{padding:.25rem .75rem .25rem 0;vertical-align:top}td:first-child{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap;color:#57606a}
.grade{white-space:nowrap;font-size:12px}.not{color:#9a6700}.traced{color:#8250df}
.reported{color:#0969da}.headline{font-size:16px}
@media (prefers-color-scheme: dark){body{color:#e6edf3;background:#0d1117}
td:first-child{color:#8d96a0}.not{color:#d29922}.traced{color:#bc8cff}.reported{color:#58a6ff}}
""".strip()


def page(contents: Contents) -> str:
    """The HTML document as text."""
    told = story(contents)
    headline = " ".join(sentence(claim.kind, claim.facts) for claim in told.headline)
    rows = []
    for claim in told.claims:
        at = ""
        if claim.at_ns is not None and told.began_ns is not None:
            at = f"{(claim.at_ns - told.began_ns) / 1e9:+.3f} s"
        grade = claim.grade.value
        rows.append(
            f'<tr title="{escape(", ".join(claim.events))}"><td>{at}</td>'
            f'<td class="grade {grade.split()[0]}">{grade}</td>'
            f"<td>{escape(sentence(claim.kind, claim.facts))}</td></tr>"
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(told.run)}</title><style>{_STYLE}</style></head><body>"
        f'<p class="headline">{escape(headline)}</p>{draw(picture(contents))}'
        f"<table>{''.join(rows)}</table></body></html>\n"
    )
