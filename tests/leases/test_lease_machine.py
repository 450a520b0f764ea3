"""Store, supervisors and crashes, driven at random against a model of a few lines.

The model knows one thing: which epoch was granted last, and whether its run can still be alive.
Everything else is what must hold: epochs rise, no older epoch writes after a newer grant, and the
key can be had again after whatever happened.
"""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness.kernels import has_inodes
from harness.writers import Story, Writer, kill, launch, note_grant, settle_all, wait_write
from lastout import sole_writer
from lastout.evidence.events import Started
from lastout.identity import ProcessIdentity
from lastout.leases import sqlite_file
from lastout.leases.refusals import Held
from lastout.leases.sqlite import SqliteStore
from lastout.outcome import identity_of
from lastout.sole_writer import Grant


class OneKey(RuleBasedStateMachine):
    """One key of one owner, whose handles, supervisors and store come to harm."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lastout-machine-"))
        self.state, self.log = self.directory / "state", self.directory / "log"
        self.log.touch()
        self.store = SqliteStore(self.state)
        self.grant: Grant | None = None
        self.writer: Writer | None = None
        self.started: Started | None = None
        self.last = 0
        self.fronts: list[subprocess.Popen[bytes]] = []

    @rule(wrapper=st.booleans())
    @precondition(lambda self: self.grant is None)
    def reserve(self, wrapper: bool) -> None:
        self.grant = sole_writer.acquire("key", state=self.state, store=self.store)
        note_grant(self.log, self.grant.epoch)
        assert self.grant.epoch > self.last
        self.last = self.grant.epoch
        self.wrapper = wrapper and has_inodes()

    @rule()
    @precondition(lambda self: self.grant is not None)
    def somebody_else_asks(self) -> None:
        """Refused while it is held, whatever has happened to it, unless it is over by then."""
        assert self.grant is not None
        try:
            other = sole_writer.acquire("key", state=self.state, store=self.store)
        except Held:
            return
        note_grant(self.log, other.epoch)
        assert other.epoch > self.last
        assert self.started is not None, "a reservation whose grant is there is nobody's to take"
        self.last = other.epoch
        self.grant, self.writer, self.started = other, None, None
        self.wrapper = False

    @rule()
    @precondition(lambda self: self.grant is not None and self.writer is None)
    def start(self) -> None:
        assert self.grant is not None
        self.writer = launch(self.grant, self.log, wrapper=self.wrapper)
        self.fronts.append(self.writer.front)
        self.started = self.writer.wait_started()
        assert self.started is not None
        wait_write(self.log, self.grant.epoch)

    @rule()
    @precondition(lambda self: self.grant is not None and self.started is not None)
    def commit_and_prove(self) -> None:
        assert self.grant is not None
        assert self.started is not None
        self.grant.commit(self.started)
        self.grant.prove()

    @rule(names=st.sampled_from([["front"], ["keeper"], ["front", "keeper"], ["keeper", "front"]]))
    @precondition(lambda self: self.started is not None)
    def kill_supervisors(self, names: list[str]) -> None:
        for name in names:
            kill(self._who(name))

    @rule(names=st.sampled_from([["front"], ["keeper"], ["front", "keeper"]]))
    @precondition(lambda self: self.started is not None)
    def stop_supervisors(self, names: list[str]) -> None:
        for name in names:
            kill(self._who(name), signal.SIGSTOP)

    @rule()
    @precondition(lambda self: self.started is not None)
    def kill_the_root(self) -> None:
        kill(self._who("root"))

    @rule()
    @precondition(lambda self: self.grant is not None)
    def release(self) -> None:
        assert self.grant is not None
        assert self.grant.release().settled
        self._forget()

    @rule()
    @precondition(lambda self: self.grant is not None)
    def lose_the_handle(self) -> None:
        """The owner lives on and knows nothing of its run any more."""
        self._forget()

    @rule()
    def back_up(self) -> None:
        sqlite_file.back_up(self.store.state, self.store._db)

    @rule()
    def damage_the_store(self) -> None:
        if not (self.state / "leases.sqlite3.backup").exists():
            return
        self.store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.store.close()
        (self.state / "leases.sqlite3").write_bytes(b"rubbish" * 1000)
        self._reopen()

    @rule()
    def lose_the_store(self) -> None:
        self.store.close()
        for path in self.state.glob("leases.sqlite3*"):
            path.unlink()
        self._reopen()

    @invariant()
    def no_older_epoch_writes(self) -> None:
        Story.read(self.log).check()

    def teardown(self) -> None:
        self.store.close()
        try:
            settle_all(self.state)
            again = sole_writer.acquire("key", state=self.state, wait=10)
            note_grant(self.log, again.epoch)
            again.release()
            Story.read(self.log).check()
        finally:
            for front in self.fronts:
                # Nobody may be left by now; what is all the same must not hold up the report.
                front.kill()
                front.wait()
            sole_writer.open_store(self.state).close()
            sole_writer._stores.pop(str(self.state), None)
            shutil.rmtree(self.directory)

    def _reopen(self) -> None:
        # A grant belongs to the store that gave it: with the store, its handle is lost.
        self._forget()
        self.store = SqliteStore(self.state)

    def _forget(self) -> None:
        self.grant = self.writer = self.started = None
        gc.collect()

    def _who(self, name: str) -> ProcessIdentity:
        assert self.started is not None
        return identity_of(getattr(self.started, name), self.started)


class TestOneKey(OneKey.TestCase):  # type: ignore[name-defined,misc]
    """A few examples each time; `make torture` runs many."""

    settings = settings(max_examples=15, stateful_step_count=10, deadline=None)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_many_examples() -> None:
    many = settings(max_examples=300, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(OneKey, settings=many)
