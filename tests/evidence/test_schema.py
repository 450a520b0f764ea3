"""The published schema is what the structs say, and every line that is written fits it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lastout.evidence.schema import schema, text

FILE = Path(__file__).parents[2] / "docs" / "reference" / "record.schema.json"


def test_the_published_schema_is_in_sync() -> None:
    assert FILE.read_text() == text(), "python -m lastout.evidence.schema > " + FILE.name


def test_every_event_of_the_reference_has_a_schema() -> None:
    reference = (FILE.parent / "record.md").read_text()
    for rule in schema()["allOf"]:
        assert f"`{rule['if']['properties']['event']['const']}`" in reference


def test_the_lines_of_a_real_run_fit(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    path = tmp_path / "r.jsonl"
    subprocess.run(
        [sys.executable, "-m", "lastout", "run", "--record", str(path), "--timeout", "0.2", "--",
         "sh", "-c", "setsid sleep 60 & sleep 60"],
        check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) > 5
    for line in lines:
        validator.validate(line)


def test_a_line_of_a_later_version_fits_too() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    line = {
        "v": 1, "event": "something-new", "run": "r", "from": "front", "seq": 1, "boottime_ns": 1,
        "time": "t", "extra": {},
    }  # fmt: skip
    jsonschema.Draft202012Validator(schema()).validate(line)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate({**line, "seq": "one"})
