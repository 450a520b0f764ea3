"""Hosts that people use, in their current releases: nobody is left in any cell of the table."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from survey import HOSTS, Cell, Host, How, Manner, look, missing, survey

# The table judges at the bound and the margin. A machine that runs many tests at a time may be
# later than that with everything, which is no survivor.
SLACK = 2.5


TOGETHER = 4  # cells at a time: most of each is waiting


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> dict[tuple[str, How, Manner], Cell]:
    """The cells of the tests that were asked for, looked at together."""
    wanted = []
    for item in request.session.items:
        values = getattr(item, "callspec", None)
        if item.path == request.path and values is not None:
            host, how, manner = (values.params[name] for name in ("host", "how", "manner"))
            if missing(host) is None:
                wanted.append((host, Cell(host.name, True, manner, how)))
    cells = asyncio.run(survey(wanted, together=TOGETHER, slack=SLACK))
    return {(cell.host, cell.how, cell.manner): cell for cell in cells}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("manner", ["polite", "stubborn"])
@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name.replace(" ", "-"))
def test_nobody_is_left(
    host: Host, how: How, manner: Manner, found: dict[tuple[str, How, Manner], Cell]
) -> None:
    if (why := missing(host)) is not None:
        pytest.skip(why)
    cell = found[host.name, how, manner]
    assert cell.trouble == ""
    assert cell.alive == "", f"alive when the bound was over: {cell.alive}"


@pytest.mark.timeout(60)
def test_the_survey_sees_who_is_left() -> None:
    """Without the supervisor the same cell has survivors: what is seen above is not blindness."""
    host = HOSTS[0]
    cell = asyncio.run(look(host, Cell(host.name, False, "stubborn", "stop")))
    assert (cell.trouble, cell.alive) == ("", "A B")
