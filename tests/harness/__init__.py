"""What the tests of the supervisor stand on: real processes, waited for by events, never by sleeps."""

from harness.identity import Identity, Stat, children, descendants, read_stat, take
from harness.programs import program, supervisor_binary
from harness.run import Ended, Run
from harness.scene import Member, Owner, Scene

__all__ = [
    "Ended",
    "Identity",
    "Member",
    "Owner",
    "Run",
    "Scene",
    "Stat",
    "children",
    "descendants",
    "program",
    "read_stat",
    "supervisor_binary",
    "take",
]
