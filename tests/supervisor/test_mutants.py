"""Every test of the table in tests/mutants.py goes red when the line that it guards is taken out."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants


@pytest.mark.torture
@pytest.mark.parametrize("mutant", mutants.mutants(), ids=lambda mutant: mutant.name)
def test_a_line_that_is_missing_is_noticed(mutant: mutants.Mutant, tmp_path: Path) -> None:
    assert not mutants.survives(mutant, tmp_path), f"{mutant.test} stays green"


@pytest.mark.torture
@pytest.mark.parametrize("mutant", mutants.mutants(), ids=lambda mutant: mutant.name)
def test_the_table_is_up_to_date(mutant: mutants.Mutant) -> None:
    text = (mutants.ROOT / "native" / mutant.file).read_text()
    assert text.count(mutant.old) == 1, f"adjust {mutant.name} in tests/mutants.py"


@pytest.mark.torture
def test_without_a_change_every_test_of_the_table_is_green(tmp_path: Path) -> None:
    binary = tmp_path / "supervisor"
    mutants.build(binary)
    for test in sorted({mutant.test for mutant in mutants.mutants()}):
        assert not mutants.fails(binary, test), test
