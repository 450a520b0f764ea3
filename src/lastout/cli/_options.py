"""Options that most commands have."""

from __future__ import annotations

import click

__all__ = ["JSON", "STATE"]

STATE = click.option("--state", metavar="DIR", help="The state directory, where it is another.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
