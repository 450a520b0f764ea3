"""Who is left alive behind lastout and behind other wrappers, scenario by scenario.

`run_cell(wrapper, scenario)` puts one wrapper through one scenario and says who lived on; it
blocks, uses real processes and leaves nothing behind. `python -m bench peers` fills the table.
"""

from .cell import Cell, run_cell
from .scenarios import BY_NAME, SCENARIOS, Scenario
from .wrappers import Skipped, Wrapper, all_wrappers, lastout_wrapper

__all__ = [
    "BY_NAME",
    "SCENARIOS",
    "Cell",
    "Scenario",
    "Skipped",
    "Wrapper",
    "all_wrappers",
    "lastout_wrapper",
    "run_cell",
]
