"""Members that `/proc` hides (hidepid): they are alive, and are never taken for ended ones."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from lastout import identity, sweep, tree
from lastout.proctable import children, read_stat
from lastout.recovery import case as cases
from lastout.recovery.act import recover, recover_all
from lastout.tree import Table

_NEWNS, _PRIVATE, _DUMPABLE = 0x20000, 0x44000, 4  # sched.h, mount.h (MS_REC|MS_PRIVATE), prctl.h
_NOBODY = 65534


def where_others_are_hidden(look: Callable[[], dict[str, Any]], hidepid: int = 2) -> dict[str, Any]:
    """Do it as another user, below a `/proc` of its own that is mounted with hidepid."""
    libc = ctypes.CDLL(None, use_errno=True)
    identity.take(os.getpid())  # imports what the other user may not be able to read
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        told: dict[str, Any] = {"unavailable": "mount"}
        try:
            if (
                libc.unshare(_NEWNS) == 0
                and libc.mount(None, b"/", None, _PRIVATE, None) == 0
                and libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=%d" % hidepid) == 0
            ):
                os.setgroups([])
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
                told = look()
        except BaseException as error:
            told = {"failed": repr(error)}
        finally:
            os.write(write, json.dumps(told).encode())
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        found = dict(json.loads(file.read()))
    os.waitpid(pid, 0)
    if "unavailable" in found:
        pytest.skip("no /proc with hidepid can be mounted here")
    assert "failed" not in found, found
    return found


def child(dumpable: int) -> int:
    """A child that waits, and can or cannot be traced by its own user."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            ctypes.CDLL(None).prctl(_DUMPABLE, dumpable, 0, 0, 0)
            os.write(write, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.read(read, 1)
    os.close(read)
    os.close(write)
    return pid


def answer(of: Callable[[], object]) -> str:
    try:
        return repr(of())
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def look() -> dict[str, Any]:
    me, seen, hidden = os.getpid(), child(1), child(0)
    mine = identity.take(seen)
    try:
        listed = set(children(me)) == {seen, hidden}
        told = {
            "listed": listed,
            "stat": answer(lambda: read_stat(hidden)),
            "children": answer(lambda: children(hidden)),
            "below": answer(lambda: [one.pid for one in tree.below([me])]),
            "visible": answer(lambda: [one.pid for one in tree.below([me], without=[hidden])]),
            "exists": answer(lambda: sweep._exists(hidden)),
            "younger": answer(lambda: tree.started_after(hidden, mine)),
        }
    finally:
        for pid in (seen, hidden):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return {**told, "seen": seen, "reaped": answer(lambda: read_stat(hidden))}


@pytest.mark.root
def test_a_hidden_member_makes_the_table_unreadable_and_is_no_ended_one() -> None:
    told = where_others_are_hidden(look)
    assert told["listed"], "the kernel's list of children hides nobody"
    assert told["visible"] == repr([told["seen"]])
    for name in ("stat", "children", "below", "exists", "younger"):
        assert told[name] == "EACCES", name
    assert told["reaped"] == "ESRCH"


@pytest.mark.root
def test_many_runs_come_to_a_verdict_where_the_table_is_unreadable() -> None:
    """As one alone does: with hidepid=1 strangers are listed, and nothing of them can be read."""
    case = cases.of_record("/nowhere/run.jsonl")
    recover(case)  # imports

    def look() -> dict[str, Any]:
        verdicts = [one.verdict for one in (recover(case), *recover_all([case, case]))]
        return {"table": answer(Table.read), "verdicts": [one and one.how for one in verdicts]}

    told = where_others_are_hidden(look, 1)
    assert told["table"] in ("EACCES", "EPERM")
    assert told["verdicts"] == ["cannot-tell"] * 3
