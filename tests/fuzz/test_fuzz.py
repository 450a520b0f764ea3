"""What the supervisor reads from outside, fed with nonsense: a short run of each fuzzer of `make fuzz`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("fuzz_build", Path(__file__).with_name("build.py"))
assert _spec is not None
assert _spec.loader is not None
fuzzers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzzers)

_LACKS = fuzzers.missing()
pytestmark = [pytest.mark.skipif(_LACKS is not None, reason=str(_LACKS)), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    built: dict[str, Path] = fuzzers.build(tmp_path_factory.mktemp("fuzz"))
    return built


@pytest.mark.parametrize("name", list(fuzzers.INSTEAD))
def test_nothing_is_found(name: str, programs: dict[str, Path]) -> None:
    done = fuzzers.run(programs[name], name, "-runs=20000", "-seed=1")
    assert done.returncode == 0, done.stderr
