"""The transitions of a lease: every step from every state, with the right and a wrong epoch."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lastout.identity import ProcessIdentity
from lastout.leases import model
from lastout.leases.model import STATES, Holder, Lease, Moment
from lastout.leases.refusals import (
    Fenced,
    Held,
    IdentityIncomplete,
    LeaseError,
    NotInOrder,
    ReasonMissing,
)
from lastout.verdict import Verdict

AT = Moment(10, "2026-11-30T00:00:00Z")
LATER = Moment(5, "1970-01-01T00:00:00Z")  # clocks go back; no transition may care
ONE = ProcessIdentity(100, 5, 7, "boot", 1)
TWO = ProcessIdentity(101, 6, 8, "boot", 1)
THREE = ProcessIdentity(102, 7, 9, "boot", 1)
HOLDER = Holder("run-1", record="/r", owner=ONE)
KNOWN = replace(HOLDER, front=ONE, keeper=TWO, root=THREE, max_stop_ms=5500, boot_id="boot")
GONE = Verdict("exited", "tree-gone", True)
KILLED = Verdict("killed", "forced", False)
UNPROVEN = Verdict("unproven", "cannot-tell")


def lease(state: str, epoch: int = 5) -> Lease:
    holder = {"free": None, "reserved": HOLDER}.get(state, KNOWN)
    verdict = {"unproven": UNPROVEN, "free": GONE}.get(state)
    return Lease("k", epoch, state, holder, verdict, AT)  # type: ignore[arg-type]


STEPS = {
    "reserve": lambda one, epoch: model.reserve(one, "k", HOLDER, LATER),
    "commit": lambda one, epoch: model.commit(
        one, epoch, LATER, front=ONE, keeper=TWO, root=THREE, max_stop_ms=5500
    ),
    "prove": lambda one, epoch: model.prove(one, epoch, LATER),
    "exited": lambda one, epoch: model.settle(one, epoch, GONE, LATER),
    "killed": lambda one, epoch: model.settle(one, epoch, KILLED, LATER),
    "unproven": lambda one, epoch: model.settle(one, epoch, UNPROVEN, LATER),
    "release": lambda one, epoch: model.release(one, epoch, "I looked", "me", LATER),
}

# What each step makes of each state: a state, or the refusal.
TABLE: dict[str, dict[str, str | type[LeaseError]]] = {
    "free": {
        "reserve": "reserved", "commit": Fenced, "prove": Fenced, "exited": "free",
        "killed": "free", "unproven": "free", "release": Fenced,
    },
    "reserved": {
        "reserve": Held, "commit": "committed", "prove": NotInOrder, "exited": "free",
        "killed": "free", "unproven": "unproven", "release": NotInOrder,
    },
    "committed": {
        "reserve": Held, "commit": "committed", "prove": "proven", "exited": "free",
        "killed": "free", "unproven": "unproven", "release": NotInOrder,
    },
    "proven": {
        "reserve": Held, "commit": "proven", "prove": "proven", "exited": "free",
        "killed": "free", "unproven": "unproven", "release": NotInOrder,
    },
    "unproven": {
        "reserve": Held, "commit": NotInOrder, "prove": NotInOrder, "exited": "free",
        "killed": "free", "unproven": "unproven", "release": "free",
    },
}  # fmt: skip


@pytest.mark.parametrize(("state", "step"), list(itertools.product(STATES, STEPS)))
def test_every_step_from_every_state(state: str, step: str) -> None:
    before = lease(state)
    expected = TABLE[state][step]
    if isinstance(expected, type):
        with pytest.raises(expected) as caught:
            STEPS[step](before, 5)
        assert "'k'" in str(caught.value)
        return
    change = STEPS[step](before, 5)
    assert change.lease.state == expected
    assert change.lease.epoch == (6 if step == "reserve" else 5)
    assert (change.lease.holder is None) == (expected == "free")
    assert (change.entry is None) == (change.lease == before), "history tells every change"


@pytest.mark.parametrize(
    ("state", "step", "epoch"),
    list(itertools.product(STATES, sorted(set(STEPS) - {"reserve"}), (1, 4, 6, 99))),
)
def test_another_epoch_changes_nothing(state: str, step: str, epoch: int) -> None:
    with pytest.raises(Fenced):
        STEPS[step](lease(state), epoch)
    with pytest.raises(Fenced):
        STEPS[step](None, epoch)


def test_a_proven_lease_that_is_committed_again_by_the_same_run_stays_as_it_is() -> None:
    proven = model.prove(lease("committed"), 5, AT).lease
    assert proven.state == "proven"
    assert proven.holder is not None
    assert proven.holder.writer == THREE, "who writes is the root where nobody tells otherwise"
    assert STEPS["commit"](proven, 5).entry is None
    other = replace(proven, holder=replace(proven.holder, root=TWO))
    with pytest.raises(NotInOrder):
        STEPS["commit"](other, 5)


def test_epochs_rise_above_all_that_is_known() -> None:
    assert model.reserve(None, "k", HOLDER, AT).lease.epoch == 1
    assert model.reserve(None, "k", HOLDER, AT, above=41).lease.epoch == 42
    assert model.reserve(lease("free", 50), "k", HOLDER, AT, above=41).lease.epoch == 51
    assert model.raise_epoch(lease("proven"), 10, AT).lease.epoch == 15
    with pytest.raises(ValueError, match="only grows"):
        model.raise_epoch(lease("free"), 0, AT)


@pytest.mark.parametrize("name", ["front", "keeper", "root"])
@pytest.mark.parametrize(
    "identity",
    [
        ProcessIdentity(100, 0, 0, "boot", 1),
        ProcessIdentity(100, 5, 7, "", 1),
        ProcessIdentity(1, 5, 7, "boot", 1),
        ProcessIdentity(0, 5, 7, "boot", 1),
    ],
)
def test_a_process_that_cannot_be_recognised_is_not_committed(
    name: str, identity: ProcessIdentity
) -> None:
    people = {"front": ONE, "keeper": TWO, "root": THREE, name: identity}
    with pytest.raises(IdentityIncomplete, match=name):
        model.commit(lease("reserved"), 5, AT, max_stop_ms=5500, **people)


def test_a_release_needs_a_reason() -> None:
    with pytest.raises(ReasonMissing):
        model.release(lease("unproven"), 5, "  ", "me", AT)


def test_a_doubt_is_dismissed_with_a_reason_and_only_while_the_key_is_free() -> None:
    change = model.dismiss(lease("free"), "I looked", "me", AT)
    assert change.lease == lease("free")
    assert change.entry is not None
    assert change.entry.detail == {"reason": "I looked", "by": "me"}
    with pytest.raises(ReasonMissing):
        model.dismiss(lease("free"), "", "me", AT)
    for state in set(STATES) - {"free"}:
        with pytest.raises(NotInOrder):
            model.dismiss(lease(state), "I looked", "me", AT)


def test_a_refusal_says_who_holds_it_and_how_to_get_out() -> None:
    with pytest.raises(Held) as held:
        STEPS["reserve"](lease("committed"), 5)
    assert "run-1" in str(held.value)
    assert "lastout stop k" in str(held.value)
    with pytest.raises(Held) as held:
        STEPS["reserve"](lease("unproven"), 5)
    assert "lastout recover k" in str(held.value)
    assert "lastout lease release k --reason" in str(held.value)


@pytest.mark.parametrize("state", STATES)
def test_a_holder_survives_the_store(state: str) -> None:
    holder = lease(state).holder
    if holder is not None:
        assert Holder.from_json(holder.to_json()) == holder


@pytest.mark.parametrize("rubbish", [{}, {"run": "x", "owner": 3}, {"run": "x", "front": {}}])
def test_what_is_no_holder_is_said(rubbish: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a"):
        Holder.from_json(rubbish)


def test_a_verdict_never_says_more_than_its_way_allows() -> None:
    with pytest.raises(ValueError, match="forced"):
        Verdict("exited", "forced")
    with pytest.raises(ValueError, match="not gone"):
        Verdict("exited", "tree-gone", False)
    with pytest.raises(ValueError, match="no verdict"):
        Verdict("perhaps", "tree-gone")  # type: ignore[arg-type]
    later = Verdict.from_json({"kind": "killed", "how": "a-way-of-a-later-version"})
    assert later is not None
    assert later.settled
    assert Verdict.from_json(KILLED.to_json()) == KILLED
    with pytest.raises(ValueError, match="not a verdict"):
        Verdict.from_json({"kind": "killed"})
