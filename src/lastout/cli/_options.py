"""Options that most commands have."""

from __future__ import annotations

import click

__all__ = ["DRY_RUN", "JSON", "KEEP", "STATE", "THERE"]

STATE = click.option("--state", metavar="DIR", help="The state directory, where it is another.")
KEEP = click.option("--keep", type=click.IntRange(0), metavar="N", help="The newest N at most.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would go.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
THERE = click.option(
    "--state",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The state directory, where it is another.",
)
"""For commands that read: one that is not there is a slip of the pen, and is not made."""
