"""Retention: by age, number and size, and never a run that somebody may still need."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastout.evidence import retention
from lastout.evidence.index import Index, Row
from lastout.evidence.retention import Policy, decide

from .records import Record
from .test_index import DAY, ended, put

NOW = 1_000_000_000_000_000
DAY_US = 86400 * 1_000_000


def row(
    number: int, *, state: str = "ended", days: float = 0, size: int = 100, **more: object
) -> Row:
    return Row(
        run=f"r{number}",
        state=state,
        began_us=int(NOW - days * DAY_US),
        ended_us=int(NOW - days * DAY_US) if state != "open" else None,
        path=f"/r{number}",
        size=size,
        boot_id="here",
        **more,  # type: ignore[arg-type]
    )


def gone(rows: list[Row], policy: Policy, **more: object) -> list[str]:
    plan = decide(rows, policy, now_us=NOW, **more)  # type: ignore[arg-type]
    return sorted(one.run for one, _ in plan.remove)


def test_by_age() -> None:
    rows = [row(1, days=100), row(2, days=10)]
    assert gone(rows, Policy(max_age_s=30 * 86400)) == ["r1"]


def test_by_number_the_newest_stay() -> None:
    rows = [row(n, days=n) for n in range(5)]
    assert gone(rows, Policy(max_count=2)) == ["r2", "r3", "r4"]


def test_by_size_the_newest_stay() -> None:
    rows = [row(n, days=n, size=100) for n in range(5)]
    assert gone(rows, Policy(max_bytes=250)) == ["r2", "r3", "r4"]


@pytest.mark.parametrize("state", ["open", "unproven"])
def test_live_and_unproven_stay_until_the_machine_has_started_again(state: str) -> None:
    rows = [row(1, state=state, days=100)]
    policy = Policy(max_age_s=1, max_count=0, max_bytes=0)
    assert gone(rows, policy) == []
    assert gone(rows, policy, gone_boots=lambda boot: boot == "here") == ["r1"]


def test_a_verdict_of_unproven_stays() -> None:
    assert gone([row(1, days=100, verdict="unproven")], Policy(max_age_s=1)) == []


def test_held_stays() -> None:
    assert gone([row(1, days=100), row(2, days=100)], Policy(max_age_s=1), holds={"r1"}) == ["r2"]


def test_what_stays_only_because_it_is_protected_is_named() -> None:
    plan = decide([row(1, state="open", days=9)], Policy(max_age_s=1), now_us=NOW)
    assert [(one.run, why) for one, why in plan.protected] == [
        ("r1", "live, or its end is not known")
    ]


rows = st.lists(
    st.builds(
        row,
        st.integers(0, 50),
        state=st.sampled_from(["ended", "unproven", "open", "not-started"]),
        days=st.floats(0, 100),
        size=st.integers(0, 1000),
        verdict=st.sampled_from([None, "exited", "killed", "unproven"]),
    ),
    max_size=12,
    unique_by=lambda one: one.run,
)
limits = st.one_of(st.none(), st.integers(0, 500))


@given(rows, limits, limits, limits, st.sets(st.sampled_from(["r1", "r2", "r3"])))
def test_no_policy_takes_a_run_that_may_be_needed(
    all_rows: list[Row], age: int | None, count: int | None, size: int | None, holds: set[str]
) -> None:
    plan = decide(all_rows, Policy(age, count, size), now_us=NOW, holds=holds)
    for one, reason in plan.remove:
        assert one.state in ("ended", "not-started")
        assert one.verdict != "unproven"
        assert one.run not in holds
        assert reason
    removed = {one.run for one, _ in plan.remove}
    if (age, count, size) == (None, None, None):
        assert not removed
    shielded = {one.run for one, _ in plan.protected}
    assert not removed & shielded
    free = [one for one in all_rows if one.run not in removed | shielded]
    if count is not None:
        assert len(free) <= count


def test_pruning_looks_again_before_it_removes(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    old = put(state, f"{DAY}T100000-aaaaaa", ended())
    reused = put(state, f"{DAY}T100001-bbbbbb", ended())
    held = put(state, f"{DAY}T100002-cccccc", ended())
    with Index(state) as index:
        index.refresh()
        plan = decide(index.rows(), Policy(max_count=0), now_us=retention.now_us())
    assert len(plan.remove) == 3
    # Meanwhile one name is used again by a run that lives, and one is held.
    reused.write_bytes(Record().started().data())
    retention.hold(held)
    paths = {one.run: one.path for one, _ in plan.remove}
    removed, left = retention.prune(plan, lambda run: retention.held(paths[run]))
    assert [one.run[-6:] for one in removed] == ["aaaaaa"]
    assert {why for _, why in left} == {"it has changed", "held"}
    assert not old.exists()
    assert reused.exists()
    assert held.exists()
    assert retention.release(held)
    assert not retention.release(held)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90d", 90 * 86400), ("1.5h", 5400), ("30 m", 1800), ("2w", 14 * 86400)]
)
def test_ages(text: str, seconds: float) -> None:
    assert retention.parse_age(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("500M", 500 << 20), ("2G", 2 << 30), ("10", 10), ("1kB", 1024)]
)
def test_sizes(text: str, size: int) -> None:
    assert retention.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "d", "90", "-1d", "1y"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(ValueError, match="like 90d"):
        retention.parse_age(text)
