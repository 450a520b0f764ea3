"""Every wait in one table."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from lastout import supervisor
from lastout.evidence.events import Started
from lastout.evidence.settled import settled
from lastout.graces import DEFAULT, MARGIN, MAXIMA, PRESETS, Graces, resolve


def test_max_stop_is_the_sum_of_all_waits() -> None:
    assert Graces().max_stop == 5.5
    assert Graces(stdin=1, term=2, observe=0.5, reap=0.25).max_stop == 3.75
    assert MARGIN == 0.5


@pytest.mark.parametrize("name", ["stdin", "term", "observe", "reap"])
def test_a_grace_ends_at_its_maximum(name: str) -> None:
    assert getattr(Graces(**{name: MAXIMA[name]}), name) == MAXIMA[name]
    with pytest.raises(ValueError, match=name):
        Graces(**{name: MAXIMA[name] + 0.001})


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True, "1", None])
def test_what_is_no_number_of_seconds_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="term"):
        Graces(term=value)  # type: ignore[arg-type]


def test_a_preset_goes_by_its_name() -> None:
    assert resolve(None) is DEFAULT
    assert resolve("mcp") == Graces(stdin=1, term=2, reap=0.5)
    own = Graces(term=0.5)
    assert resolve(own) is own
    with pytest.raises(ValueError, match=r"mpc.*codex-sdk"):
        resolve("mpc")


@pytest.mark.parametrize("name", PRESETS)
def test_the_native_program_has_the_same_presets(name: str, tmp_path: Path) -> None:
    """Two tables, one truth: what `--budget NAME` sets is what Python waits for."""
    record = tmp_path / "record.jsonl"
    argv = [supervisor.binary(), "--budget", name, "--record", str(record), "--", "true"]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    started = settled(record).events[0]
    assert isinstance(started, Started)
    graces = PRESETS[name]
    milliseconds = {
        "stdin": started.stdin_grace_ms,
        "term": started.term_grace_ms,
        "observe": started.observe_bound_ms,
        "reap": started.reap_bound_ms,
    }
    assert milliseconds == {key: round(getattr(graces, key) * 1000) for key in milliseconds}
    assert started.max_stop_ms == round(graces.max_stop * 1000)


@pytest.mark.parametrize("name", ["stdin", "term", "reap"])
def test_the_native_program_has_the_same_maxima(name: str) -> None:
    option = {"stdin": "--stdin-grace", "term": "--term-grace", "reap": "--reap-bound"}[name]
    above = [supervisor.binary(), option, str(MAXIMA[name] + 0.1), "--", "true"]
    refused = subprocess.run(above, capture_output=True, stdin=subprocess.DEVNULL, text=True)
    assert refused.returncode == 125
    assert option in refused.stderr
    at_most = [supervisor.binary(), option, str(MAXIMA[name]), "--", "true"]
    subprocess.run(at_most, check=True, stdin=subprocess.DEVNULL)
