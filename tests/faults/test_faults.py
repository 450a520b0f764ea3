"""Every system call on the paths of start and stop may fail, or be the last one, once."""

from __future__ import annotations

import platform

import pytest

from faults.sweep import END_OF_CALLS, ROLES, WHAT, round_
from harness import Scene
from harness.pauses import stillness

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the program that injects knows x86_64 alone"
)


def sweep(scene: Scene, role: str, what: str, first: int, step: int) -> int:
    witness = scene.bystander("witness")
    # A witness that is stopped at random (make load) is continued by a SIGCONT of nobody's fault.
    witness.tell("note=TERM,INT,HUP,QUIT,USR1" + ("" if stillness.needed else ",CONT"))
    k = first
    while round_(scene, role, k, what) != END_OF_CALLS:
        k += step
    assert witness.alive()
    assert not [note for note in witness.notes if note.startswith("signal")], witness
    return k


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("role", ROLES)
def test_a_sample_of_calls_goes_wrong(scene: Scene, role: str, what: str) -> None:
    # Another residue for each combination, so that the sample is spread over the calls.
    first = 3 + 5 * WHAT.index(what) + 2 * ROLES.index(role)
    assert sweep(scene, role, what, first, 31) > 31, "the paths have more calls than that"


@pytest.mark.torture
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("role", ROLES)
def test_every_call_goes_wrong(scene: Scene, role: str, what: str) -> None:
    sweep(scene, role, what, 1, 1)
