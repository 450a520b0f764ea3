"""What is written twice for the type checker says the same twice."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import lastout
from lastout.completed import RunOptions

ROOT = Path(__file__).parents[2]


def names(function: object) -> set[str]:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {name for name in parameters if not name.startswith("_")}


def test_run_process_takes_every_option_of_open_process() -> None:
    own = {"argv", "stdin", "stdout", "stderr"}
    own |= {"ctty"}  # for a terminal on stdin, which is not what is collected here
    assert set(RunOptions.__annotations__) == names(lastout.open_process) - own


def test_the_reference_names_every_argument() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    part = text.split("## open_process", 1)[1].split("## Process", 1)[0]
    assert names(lastout.open_process) <= set(re.findall(r"`([a-z_0-9]+)`", part))


def test_the_reference_names_everything_of_a_process_and_an_outcome() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    public = {name for name in vars(lastout.Process) if not name.startswith("_")}
    public |= set(lastout.Outcome.__dataclass_fields__)
    assert public <= set(re.findall(r"[a-z_]+", text))
