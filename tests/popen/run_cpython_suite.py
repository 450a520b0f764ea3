"""Runs CPython's own tests of subprocess against `lastout.Popen`: the suite of this interpreter.

    python tests/popen/run_cpython_suite.py STATE_DIRECTORY [TEST ...]

Prints one JSON object: how many tests ran, and the ids of those that failed, with their last line.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import unittest
from typing import Any

import lastout


class Popen(lastout.Popen):  # the name is part of what the suite compares
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("state", STATE)
        super().__init__(*args, **kwargs)


class Result(unittest.TextTestResult):
    """Remembers who passed, who failed and why, and who was skipped."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addSuccess(test)
        self.passed.append(short(test.id()))


def short(name: str) -> str:
    return name.removeprefix("test.test_subprocess.").removeprefix("test_subprocess.")


def last_line(trace: str) -> str:
    return trace.strip().splitlines()[-1][:300]


def main() -> None:
    subprocess.Popen = Popen  # type: ignore[misc]
    try:
        from test import test_subprocess
    except ImportError:
        print(json.dumps({"missing": "this Python has no test package"}))
        return
    loader = unittest.defaultTestLoader
    if names := sys.argv[2:]:
        suite = loader.loadTestsFromNames(names, test_subprocess)
    else:
        suite = loader.loadTestsFromModule(test_subprocess)
    output = io.StringIO()
    result = unittest.TextTestRunner(output, resultclass=Result, verbosity=0).run(suite)
    assert isinstance(result, Result)
    failed = {
        short(test.id()): last_line(trace) for test, trace in (*result.failures, *result.errors)
    }
    told = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "ran": result.testsRun,
        "passed": result.passed,
        "failed": failed,
        "skipped": {short(test.id()): why for test, why in result.skipped},
        "output": output.getvalue()[-20_000:],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    STATE = sys.argv[1]
    main()
