"""What tests of the forced step share: a rude tree, and the supervisors made stuck."""

from __future__ import annotations

from signal import SIGSTOP
from typing import Any

from harness.pauses import stillness
from harness.run import Run
from lastout.forced import Target
from lastout.identity import ProcessIdentity

RUDE = (
    "root ignore [ child ignore [ grandchild ignore ] ] [daemon escapee ignore ]"
    " [ tool ignore setsid [ helper ignore setpgid ] ] [orphan orphan ignore setpgid ]"
)
ROLES = ("root", "child", "grandchild", "escapee", "tool", "helper", "orphan")


def target(run: Run) -> Target:
    started = run.started
    assert run.record is not None

    def whole(name: str) -> ProcessIdentity:
        one = started[name]
        return ProcessIdentity(
            one["pid"], one["start"], one["inode"], started["boot_id"], started["pidns"]
        )

    return Target(
        started["run"], whole("front"), whole("keeper"), whole("root"), record=str(run.record.path)
    )


def stop_both(run: Run) -> None:
    """The front first: running, it would resume the keeper."""
    for process in (run.front, run.keeper):
        process.signal(SIGSTOP)
        process.wait_state("T")


def forced_line(run: Run) -> dict[str, Any]:
    return dict(run.event("forced"))


def untouched(run: Run, members: list[Any]) -> None:
    stillness.ask()  # whoever is stopped now was stopped by lastout
    assert all(member.alive() for member in members)
    for process in (run.front, run.keeper):
        assert process.state() not in "TZ", f"{process} is not resumed"
