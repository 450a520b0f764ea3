"""A supervisor that ends while recovery looks at it: its last word counts."""

from __future__ import annotations

import json

import pytest

from lastout.identity import Alive, boot_id
from lastout.recovery import act, case


def line(seq, event, **fields):
    common = {"v": 1, "event": event, "run": "r1", "from": "front", "seq": seq}
    clocks = {"boottime_ns": seq, "time": "2026-01-01T00:00:00.000000Z"}
    return json.dumps(common | clocks | fields) + "\n"


@pytest.fixture
def record(tmp_path):
    who = {"pid": 70, "start": 5, "inode": 0}
    path = tmp_path / "r1.jsonl"
    started = {"front": who, "keeper": who | {"pid": 71}, "root": who | {"pid": 72}}
    facts = {"boot_id": boot_id(), "pidns": 1, "max_stop_ms": 100, "owner_watch": "none"}
    path.write_text(line(1, "started", **started, **facts))
    return path


def test_a_tree_gone_that_is_written_between_the_two_looks_is_not_missed(record, monkeypatch):
    looked_at = []

    def ends_now(identity):
        looked_at.append(identity)
        # The record was read before anybody was looked at.
        if len(looked_at) == 3:
            with record.open("a") as file:
                file.write(line(2, "tree-gone", remaining=0))
        return Alive.NO

    monkeypatch.setattr(act, "still_alive", ends_now)
    verdict = act.recover(case.of_record(str(record))).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.how) == ("exited", "tree-gone")
