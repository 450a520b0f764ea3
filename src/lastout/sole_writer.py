"""Sole writer: take a key for one run, and give it back with the evidence of its end.

`acquire` reserves a key before any process exists, after it has recovered whatever held it before.
The grant it gives goes with the run: its options for the supervisor, the commit of the run's
identities, the proof that the agent answered, and the release.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lastout import identity
from lastout.identity import ProcessIdentity
from lastout.leases import locks, model
from lastout.leases.model import Holder, Lease
from lastout.leases.refusals import Held, LeaseUnproven
from lastout.leases.store import Store, Stored
from lastout.recovery import case as cases
from lastout.recovery.act import Result, recover
from lastout.recovery.case import Asker
from lastout.recovery.queue import Turn
from lastout.state import new_run, record_file, state_dir
from lastout.verdict import EXITED, Verdict

if TYPE_CHECKING:
    from lastout.evidence.events import Started
    from lastout.outcome import Outcome

__all__ = ["Grant", "acquire", "open_store"]

_MOST_TURNS: Final = 1000  # lost races for one key, before this is called a defect

_live: weakref.WeakValueDictionary[tuple[str, str, int], Grant] = weakref.WeakValueDictionary()
_acquiring: weakref.WeakValueDictionary[tuple[str, str], threading.Lock] = (
    weakref.WeakValueDictionary()
)
_stores: dict[str, Store] = {}
_stores_lock = threading.Lock()


def open_store(state: str | os.PathLike[str] | None = None) -> Store:
    """This process's store of a state directory. Raises StoreUnusable, OSError."""
    from lastout.leases.sqlite import SqliteStore

    where = os.fspath(state_dir(state))
    with _stores_lock:
        if where not in _stores:
            _stores[where] = SqliteStore(where)
        return _stores[where]


class Grant:
    """A key, held at one epoch by one run. All methods block for about a millisecond at most,
    except `release` of a run whose end was not observed."""

    def __init__(self, key: str, lease: Lease, state: str, store: Store) -> None:
        assert lease.holder is not None
        self.key = key
        self.epoch = lease.epoch
        self.run = lease.holder.run
        self.record = lease.holder.record
        self.state = state
        self.lock = locks.lock_path(state, key, lease.epoch)
        self.verdict: Verdict | None = None
        """How it was given back; None while it is held."""
        self._store = store
        _live[state, key, lease.epoch] = self

    def options(self) -> dict[str, Any]:
        """What `supervisor.command` and `open_process` need to run under this grant."""
        return {
            "key": self.key,
            "lock": self.lock,
            "epoch": self.epoch,
            "run": self.run,
            "record": self.record,
        }

    def commit(self, started: Started) -> Lease:
        """Put the processes of the run under the grant, from its `started` line.

        Raises IdentityIncomplete (stop the run: it could not be recognised later), Fenced.
        """
        front, keeper, root = (
            ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)
            for one in (started.front, started.keeper, started.root)
        )
        bound = started.max_stop_ms
        return self._change(
            lambda stored, at: model.commit(
                _lease(stored),
                self.epoch,
                at,
                front=front,
                keeper=keeper,
                root=root,
                max_stop_ms=bound,
            )
        )

    def prove(
        self, writer: ProcessIdentity | None = None, evidence: Mapping[str, Any] | None = None
    ) -> Lease:
        """The agent has answered for this key: from here on it may write.

        `writer` is the process that writes, where the agent tells it; else the root. Raises Fenced,
        NotInOrder.
        """
        return self._change(
            lambda stored, at: model.prove(
                _lease(stored), self.epoch, at, writer=writer, evidence=evidence
            )
        )

    def release(self, outcome: Outcome | Verdict | None = None) -> Verdict:
        """Give the key back, and say on what evidence.

        An observed end settles it at once. Anything else is brought to a verdict first: that waits
        for the supervisor, and takes the forced step when it is overdue. `unproven` keeps the key.
        """
        if self.verdict is not None and self.verdict.settled:
            return self.verdict
        if isinstance(outcome, Verdict):
            self.verdict = outcome
        elif outcome is not None and outcome.verdict == EXITED:
            status = {"status": outcome.root_status}
            self.verdict = Verdict(EXITED, outcome.how or "tree-gone", True, status)
        if self.verdict is not None and self.verdict.settled:
            settled = self.verdict
            self._change(lambda stored, at: model.settle(_lease(stored), self.epoch, settled, at))
            return settled
        found = self._store.get(self.key)
        if found is None or found.lease.epoch != self.epoch or found.lease.holder is None:
            last = found.lease.verdict if found and found.lease.epoch == self.epoch else None
            return last or Verdict("unproven", "cannot-tell")
        case = cases.of_lease(found.lease, locks.directory(self.state, self.key))
        result = recover(case, asker=_ourselves(gone=True), store=self._store)
        self.verdict = result.verdict or Verdict(
            "unproven", "still-alive", None, {"left": result.left}
        )
        return self.verdict

    def _change(self, transition: Any) -> Lease:
        return self._store.change(self.key, transition)


def acquire(
    key: str,
    *,
    state: str | os.PathLike[str] | None = None,
    store: Store | None = None,
    run: str | None = None,
    record: str | os.PathLike[str] | None = None,
    owner: ProcessIdentity | None = None,
    front: ProcessIdentity | None = None,
    wait: float | None = 0.0,
) -> Grant:
    """Reserve a key for a run that is about to be started.

    What held it before is brought to a verdict first. `owner` is the process whose run it will be
    (this one), `front` the process that will become its supervisor where that is known already.
    `wait` is in seconds: how long to wait for a holder that is alive; None is for ever, 0 not at
    all. Raises Held with who has it, LeaseUnproven when an earlier agent could not be stopped,
    StoreUnusable, OSError. Blocks.
    """
    if not key:
        raise ValueError("a key is a string that is not empty")
    where = os.fspath(state_dir(state))
    store = store or open_store(where)
    run = run or new_run()
    path = os.path.abspath(os.fspath(record)) if record else record_file(run, where)
    ours = identity.take(os.getpid())
    wanted = Holder(
        run=run,
        record=path,
        host=os.uname().nodename,
        boot_id=identity.boot_id(),
        # Who becomes the front itself says whose run it is; nobody's is an answer too.
        owner=owner if front else owner or ours,
        front=front,
    )
    with Turn(store, key, wait) as turn:
        while turn.lost < _MOST_TURNS:
            try:
                with _alone_in_process(where, key):
                    return _take(key, where, store, wanted)
            except LeaseUnproven:
                raise
            except Held as held:
                if not turn.next(held.lease):
                    raise
    raise RuntimeError(f"{_MOST_TURNS} others were faster for {key!r}")


def _take(key: str, state: str, store: Store, wanted: Holder) -> Grant:
    folder = locks.directory(state, key)
    stored = store.get(key)
    if stored is not None and not stored.lease.free:
        _recover_holder(stored.lease, folder, state, store, wanted)
    doubts: list[int] = []

    def reserve(found: Stored | None, at: model.Moment) -> model.Change:
        there = locks.epochs(folder)
        doubts[:] = [epoch for epoch in there if _unsettled(epoch, found)]
        return model.reserve(
            _lease(found),
            key,
            wanted,
            at,
            above=max(store.floor(), *there, 0),
            doubt=_answers_up_to(found) if doubts else None,
        )

    lease = store.change(key, reserve)
    try:
        # First the file of this epoch, then the look at the others: see leases/locks.
        locks.create(folder, lease.epoch, _content(key, wanted))
        _recover_unsettled(key, folder, state, doubts, lease, wanted)
        if doubts:
            store.change(key, lambda found, at: model.trust(_lease(found), lease.epoch, at))
    except BaseException as error:
        locks.empty(folder, lease.epoch)
        refused = Verdict(EXITED, "never-started", True, {"why": str(error)})
        store.change(key, lambda found, at: model.settle(_lease(found), lease.epoch, refused, at))
        raise
    locks.tidy(folder, locks.epochs(folder), lease.epoch)
    return Grant(key, lease, state, store)


@contextlib.contextmanager
def _alone_in_process(state: str, key: str) -> Iterator[None]:
    """One acquire at a time for a key: two threads own the same runs, and must not take each
    other's reservation for one that was dropped."""
    with _stores_lock:
        lock = _acquiring.setdefault((state, key), threading.Lock())
    with lock:
        yield


def _recover_holder(lease: Lease, folder: str, state: str, store: Store, wanted: Holder) -> None:
    """Bring the run that holds the key to a verdict. Raises Held, LeaseUnproven."""
    gone = _handle_gone(state, lease.key, lease.epoch, wanted)
    result = recover(cases.of_lease(lease, folder), asker=_asker(wanted, gone=gone), store=store)
    _refuse(result, lease)


def _recover_unsettled(
    key: str, folder: str, state: str, doubts: list[int], lease: Lease, wanted: Holder
) -> None:
    """Runs of epochs that the store cannot answer for, by their lock files.

    Every other older epoch was settled behind a fence or by its own last word.
    """
    for epoch in doubts:
        case = cases.of_lock(folder, epoch, key)
        stranger = Lease(key, epoch, "committed", case.holder, None, lease.since)
        if not case.run:
            # A fence that somebody left, for which no run was ever granted; or nobody knows.
            if locks.probe(folder, epoch) is not locks.LockState.FREE:
                raise LeaseUnproven(stranger, Verdict("unproven", "lock-held"))
            continue
        gone = _handle_gone(state, key, epoch, wanted)
        _refuse(recover(case, asker=_asker(wanted, gone=gone)), stranger)


def _handle_gone(state: str, key: str, epoch: int, wanted: Holder) -> bool:
    """Whether the asker, if it owns that run, has dropped its grant and so cannot want it any more.
    A process that is to become a front has no handles to lose."""
    return wanted.front is None and (state, key, epoch) not in _live


def _answers_up_to(found: Stored | None) -> int:
    """The greatest epoch for which the store knows that it, and all before it, are over."""
    if found is None:
        return 0
    return found.lease.epoch if found.doubt is None else found.doubt


def _unsettled(epoch: int, found: Stored | None) -> bool:
    return epoch > _answers_up_to(found)


def _refuse(result: Result, lease: Lease) -> None:
    if result.verdict is None:
        raise Held(lease)
    if not result.verdict.settled:
        raise LeaseUnproven(lease, result.verdict)


def _content(key: str, wanted: Holder) -> dict[str, Any]:
    return {
        "key": key,
        "run": wanted.run,
        "record": wanted.record,
        "boot_id": wanted.boot_id,
        "pidns": identity.pidns(),
        "owner": wanted.owner.to_json() if wanted.owner else None,
    }


def _asker(wanted: Holder, *, gone: bool) -> Asker:
    """The owner of the wanted run asks; only its own runs are its to end."""
    return Asker((wanted.owner,) if wanted.owner else (), handle_gone=gone)


def _ourselves(*, gone: bool) -> Asker:
    return Asker((identity.take(os.getpid()),), handle_gone=gone, stop=True)


def _lease(stored: Stored | None) -> Lease | None:
    return stored.lease if stored else None
