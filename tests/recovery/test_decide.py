"""`decide` over every combination of facts: what must hold in each, whatever else is true."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lastout.identity import Alive
from lastout.leases.locks import LockState
from lastout.recovery.decide import Decision, Facts, Record, Step, decide
from lastout.verdict import Verdict

YES, NO, UNKNOWN = Alive.YES, Alive.NO, Alive.UNKNOWN
ALIVE = (None, YES, NO, UNKNOWN)
LOCKS = (None, LockState.HELD, LockState.FREE, LockState.UNKNOWN)
FORCED = Verdict("killed", "forced", True)


OVER = (Record.TREE_GONE, Record.NOT_STARTED)


def every_combination(*, whole: bool) -> Iterator[Facts]:
    """All facts that can occur together: a lock is tested only behind a fence, and the root's group
    is looked at only where a root is known. Unless `whole`, what is decided by boot or last word
    stands once, and writer and group are not varied at the same time."""
    locks = [(False, None), *((True, lock) for lock in LOCKS)]
    both = [(one, other) for one in ALIVE for other in ALIVE if whole or None in (one, other)]
    roots = [(None, None, None), *((root, *two) for root in (YES, NO, UNKNOWN) for two in both)]
    origins = [
        (same_boot, record)
        for same_boot in (True, False, None)
        for record in Record
        if whole or (same_boot and record not in OVER) or record is Record.STARTED
    ]
    for (same_boot, record), (fenced, lock), front, keeper, (
        root,
        writer,
        group,
    ) in itertools.product(origins, locks, ALIVE, ALIVE, roots):
        for owner, owns, gone, asked in itertools.product(
            ALIVE, (False, True), (False, True), (False, True)
        ):
            yield Facts(
                same_boot=same_boot, record=record, lock=lock, fenced=fenced, front=front,
                keeper=keeper, root=root, writer=writer, group=group, owner=owner,
                asker_owns=owns, handle_gone=gone, asked=asked, awaited=asked,
            )  # fmt: skip


def variants(facts: Facts) -> Iterator[Facts]:
    """The facts that few decisions read, for the few that read them."""
    for executing, kill, forced in itertools.product(
        (None, False, True), (None, False, True), (None, FORCED)
    ):
        yield replace(facts, executing=executing, kill_delivered=kill, forced=forced)


def check(facts: Facts) -> Decision:
    """What must hold for every decision."""
    decision = decide(facts)
    verdict = decision.verdict
    assert (decision.step is Step.SETTLE) == (verdict is not None)
    if verdict is None:
        _check_step(facts, decision)
        return decision
    evidence = set(facts_that_prove(facts))
    if verdict.kind == "exited":
        assert evidence & {"other-boot", "last-word", "never-executed", "cgroup-removed"}, facts
    if verdict.kind == "killed":
        assert evidence & {"writers-gone", "kill-delivered", "keeper-gone", "forced"}, facts
    if verdict.kind == "unproven":
        assert not evidence & {"other-boot", "last-word"}, facts
    if facts.root is YES and facts.same_boot and "last-word" not in evidence:
        assert verdict.root_gone is not True or verdict is facts.forced, facts
    return decision


def facts_that_prove(facts: Facts) -> Iterator[str]:
    if facts.same_boot is False:
        yield "other-boot"
    if facts.record in (Record.TREE_GONE, Record.NOT_STARTED):
        yield "last-word"
    if facts.forced is not None:
        yield "forced"
    missing = facts.record is Record.MISSING
    if facts.fenced and (facts.executing is False or (missing and not facts.executing)):
        yield "never-executed"
    if facts.cgroup_removed and facts.front is NO and facts.record is Record.EMPTY:
        yield "cgroup-removed"
    if facts.root is NO and facts.writer in (NO, None) and facts.group in (NO, None):
        yield "writers-gone"
    if facts.kill_delivered:
        yield "kill-delivered"
    if facts.keeper is NO and facts.executing and not missing:
        yield "keeper-gone"


def _check_step(facts: Facts, decision: Decision) -> None:
    alive = YES in (facts.front, facts.keeper)
    touching = decision.step in (Step.ASK, Step.FORCE)
    if touching and facts.owner is YES:
        assert facts.asker_owns, "nobody else touches a run whose owner is alive"
    if touching and alive and facts.owner in (None, UNKNOWN):
        assert facts.asker_owns, "a run that nobody owns, or whose owner cannot be seen, is left"
    if touching and alive and facts.front is YES and facts.owner is not NO:
        assert facts.handle_gone, "an owner that has its handle and its front uses those"
    if decision.step is Step.FORCE:
        assert facts.asked or not alive, "a supervisor is asked first, and waited for"
        assert facts.forced is None
    if decision.step is Step.ASK:
        assert not facts.asked
        assert alive
    if decision.step is Step.FENCE:
        assert not facts.fenced
    if decision.step is Step.AWAIT_START:
        assert not facts.awaited
        assert facts.lock is LockState.HELD


@pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=[pytest.mark.torture, pytest.mark.timeout(600)])]
)
def test_every_combination_of_facts(whole: bool) -> None:
    count = 0
    for facts in every_combination(whole=whole):
        check(facts)
        count += 1
        if facts.record is Record.EMPTY and facts.root is None:
            check(replace(facts, cgroup_removed=True))
        if facts.keeper in (NO, None) and facts.front is NO and facts.owner is NO and facts.asked:
            for one in variants(facts):
                check(one)
                count += 1
    assert count > 250_000


@pytest.mark.parametrize("record", OVER)
def test_a_last_word_decides_whatever_else_is_true(record: Record) -> None:
    decision = decide(Facts(None, record, front=YES, keeper=YES, root=YES, owner=YES))
    assert decision.verdict is not None
    assert decision.verdict.kind == "exited"


def test_a_root_that_the_lease_knows_is_looked_at_though_the_record_is_empty() -> None:
    """The record was cut off: that the cgroup is gone is then no end of a start."""
    known = Facts(True, Record.EMPTY, front=NO, keeper=NO, root=YES, cgroup_removed=True)
    assert decide(known).step is Step.FORCE
    gone = decide(replace(known, root=NO)).verdict
    assert gone is not None
    assert (gone.kind, gone.how) == ("killed", "root-gone")


facts = st.builds(
    Facts,
    same_boot=st.sampled_from([True, False, None]),
    record=st.sampled_from(Record),
    lock=st.sampled_from(LOCKS),
    fenced=st.booleans(),
    front=st.sampled_from(ALIVE),
    keeper=st.sampled_from(ALIVE),
    root=st.sampled_from(ALIVE),
    writer=st.sampled_from(ALIVE),
    group=st.sampled_from(ALIVE),
    executing=st.sampled_from([None, True, False]),
    kill_delivered=st.sampled_from([None, True, False]),
    cgroup_removed=st.booleans(),
    owner=st.sampled_from(ALIVE),
    asker_owns=st.booleans(),
    handle_gone=st.booleans(),
)

STEPS_ON = {
    Step.FENCE: {"fenced": True},
    Step.AWAIT_START: {"awaited": True},
    Step.ASK: {"asked": True},
    Step.FORCE: {"forced": FORCED},
}


@given(facts)
@settings(max_examples=2000, deadline=None)
def test_every_run_comes_to_an_answer_in_five_steps(start: Facts) -> None:
    """Also when nothing that is done has any effect."""
    now = start
    for _ in range(5):
        decision = decide(now)
        if decision.step in (Step.SETTLE, Step.LEAVE):
            return
        now = replace(now, **STEPS_ON[decision.step])
    raise AssertionError(f"no answer for {start}")


@given(facts)
@settings(max_examples=2000, deadline=None)
def test_what_is_unknown_never_frees_a_key(start: Facts) -> None:
    """Facts that are replaced by "unknown" may lose a verdict; they never win one."""
    known = decide(replace(start, same_boot=True, record=Record.STARTED, forced=None))
    blind = decide(
        replace(
            start, same_boot=True, record=Record.STARTED, forced=None,
            front=UNKNOWN, keeper=UNKNOWN, root=UNKNOWN, writer=UNKNOWN, group=UNKNOWN,
            executing=None, lock=None, fenced=False,
        )
    )  # fmt: skip
    assert blind.verdict is not None
    assert blind.verdict.kind == "unproven"
    assert known.step in Step


class Waiting(RuleBasedStateMachine):
    """A run that was called unproven is looked at again and again while time passes: the verdict
    changes only when a fact does, and never by waiting."""

    @initialize(start=facts)
    def begin(self, start: Facts) -> None:
        self.facts = start
        self.last = decide(start)

    @rule()
    def wait(self) -> None:
        assert decide(self.facts) == self.last, "the same facts, the same answer"

    @rule(asked=st.booleans(), awaited=st.booleans())
    def look_again(self, asked: bool, awaited: bool) -> None:
        before = decide(replace(self.facts, asked=True, awaited=True))
        after = decide(replace(self.facts, asked=asked, awaited=awaited))
        if before.verdict is not None and before.verdict.kind == "unproven" and after.verdict:
            assert after.verdict.kind == "unproven"

    @rule(name=st.sampled_from(["front", "keeper", "root", "writer", "group", "owner"]))
    def somebody_dies(self, name: str) -> None:
        if getattr(self.facts, name) is YES:
            self.facts = replace(self.facts, **{name: NO})
            self.last = decide(self.facts)

    @rule()
    def the_record_ends(self) -> None:
        if self.facts.record is Record.STARTED and self.facts.keeper is YES:
            self.facts = replace(self.facts, record=Record.TREE_GONE)
            self.last = decide(self.facts)
            assert self.last.step is Step.SETTLE

    @rule()
    def the_machine_is_started_anew(self) -> None:
        self.facts = replace(self.facts, same_boot=False)
        self.last = decide(self.facts)
        assert self.last.verdict is not None
        assert self.last.verdict.kind == "exited"

    @invariant()
    def it_holds(self) -> None:
        check(self.facts)


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(max_examples=200, stateful_step_count=20, deadline=None)
