"""The look from threads: `Popen(observer=...)` and `TerminalPopen`."""

from __future__ import annotations

import gc
import os
import select
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastout
from lastout.evidence import events, journal
from lastout.observe import Completed, Failed, TimedOut
from lastout.proctable import read_stat

from .conftest import QUICK

ROUNDS = 30

Begin = Callable[..., Any]


@pytest.fixture(params=["pipes", "terminal"])
def begin(request: pytest.FixtureRequest, tmp_path: Path) -> Begin:
    kind: Any = lastout.Popen if request.param == "pipes" else lastout.TerminalPopen

    def start(argv: list[str], **options: Any) -> Any:
        if kind is lastout.Popen:
            options.setdefault("stdout", subprocess.DEVNULL)
        return kind(argv, graces=QUICK, state=tmp_path / "state", **options)

    return start


def test_the_exit_is_seen_before_the_reap(begin: Begin) -> None:
    for number in range(ROUNDS):
        observer = lastout.ThreadExitObserver(2)
        with begin(["sh", "-c", f"exit {number}"], observer=observer) as run:
            with observer.opportunity(20) as opportunity:
                assert opportunity.process is run
                assert read_stat(run.root.pid).state == "Z"
                assert opportunity.pgid == run.root.pid
                assert run.poll() is None
            assert isinstance(observer.observation(20), Completed)
            assert run.wait(20) == number


def test_a_thread_that_waits_does_not_take_the_look_from_another(begin: Begin) -> None:
    """Both sleep on one socket; whichever reads the line, both hear of it."""
    for _ in range(ROUNDS):
        observer = lastout.ThreadExitObserver(2)
        with begin(["sh", "-c", "sleep 0.02; exit 4"], observer=observer) as run:
            waiters = [threading.Thread(target=run.wait, args=(20,)) for _ in range(3)]
            for thread in waiters:
                thread.start()
            opportunity = observer.opportunity(20)
            assert opportunity.tree() == []
            opportunity.acknowledge()
            for thread in waiters:
                thread.join()
            assert run.returncode == 4


def test_group_and_tree_are_listed(begin: Begin) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ThreadExitObserver(2)
        with begin(["sh", "-c", "trap '' HUP; sleep 61 & exit 5"], observer=observer) as run:
            with observer.opportunity(20) as opportunity:
                (member,) = opportunity.group()
                assert [each.pid for each in opportunity.tree()] == [member.pid]
            assert run.wait(20) == 5
            assert [gone.pid for gone in run.outcome.stopped] == [member.pid]


def test_a_stalled_observer_is_waited_for_no_longer_than_the_bound(begin: Begin) -> None:
    seconds = 0.04
    for _ in range(ROUNDS):
        observer = lastout.ThreadExitObserver(seconds)
        with begin(["true"], observer=observer) as run:
            try:
                opportunity = observer.opportunity(20)
            except lastout.OpportunityExpired:  # this test itself was held up for so long
                seconds *= 2
                continue
            assert run.wait(20) == 0
            assert isinstance(observer.observation(20), TimedOut)
            with pytest.raises(lastout.OpportunityExpired):
                opportunity.acknowledge()
            with pytest.raises(lastout.OpportunityExpired):
                opportunity.tree()


@pytest.mark.parametrize("what", ["opportunity", "observer"])
def test_who_drops_the_look_holds_nobody_up(what: str, begin: Begin) -> None:
    for _ in range(ROUNDS):
        observer: Any = lastout.ThreadExitObserver(2)
        with begin(["true"], observer=observer) as run:
            if what == "opportunity":
                observer.opportunity(20)
                gc.collect()
                assert isinstance(observer.observation(20), Failed)
            observer = None
            gc.collect()
            assert run.wait(20) == 0
        (told,) = (x for x in lines(run) if isinstance(x, events.Observed))
        assert (told.outcome, told.why) == ("failed", "dropped")


def lines(run: Any) -> list[events.Event]:
    return list(journal.read(run.record).events)


def test_a_stop_works_in_the_window(begin: Begin) -> None:
    for _ in range(ROUNDS):
        observer = lastout.ThreadExitObserver(2)
        with begin(["sh", "-c", "trap '' HUP; sleep 61 & exit 6"], observer=observer) as run:
            opportunity = observer.opportunity(20)
            (member,) = opportunity.tree()
            fd = os.pidfd_open(member.pid)  # held with the root: its parent is the keeper
            run.terminate()
            assert select.select([fd], [], [], 20)[0]
            os.close(fd)
            assert opportunity.tree() == []
            opportunity.acknowledge()
            assert run.wait(20) == 6
            assert run.outcome.stop == lastout.Stop("requested", "user")


def test_waiting_for_the_look_has_a_bound(begin: Begin) -> None:
    observer = lastout.ThreadExitObserver(0.1)
    with begin(["sleep", "61"], observer=observer) as run:
        with pytest.raises(TimeoutError):
            observer.opportunity(0.02)
        with pytest.raises(TimeoutError):
            observer.observation(0.02)
        run.kill()
        assert run.wait(20) == -9
