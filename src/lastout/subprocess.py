"""The standard library's `subprocess`, with every child under the supervisor.

    from lastout import subprocess

`run`, `call`, `check_call`, `check_output`, `getoutput` and `getstatusoutput` are the standard
library's own code, bound to `lastout.Popen`, and take its arguments (`graces=`, `record=`, ...).
"""

from __future__ import annotations

import subprocess as _standard
from collections.abc import Callable
from subprocess import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    SubprocessError,
    TimeoutExpired,
    list2cmdline,
)
from types import FunctionType
from typing import Any, TypeVar, cast

from lastout.popen import Popen

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "list2cmdline",
    "run",
]

_F = TypeVar("_F", bound=Callable[..., Any])

# Where the functions below find each other, and our Popen.
_names: dict[str, Any] = {**vars(_standard), "Popen": Popen}


def _bound(function: _F) -> _F:
    plain = cast(FunctionType, function)
    ours = FunctionType(
        plain.__code__, _names, plain.__name__, plain.__defaults__, plain.__closure__
    )
    ours.__kwdefaults__ = plain.__kwdefaults__
    ours.__doc__ = plain.__doc__
    ours.__module__ = __name__
    _names[plain.__name__] = ours
    return cast(_F, ours)


run = _bound(_standard.run)
call = _bound(_standard.call)
check_call = _bound(_standard.check_call)
check_output = _bound(_standard.check_output)
getstatusoutput = _bound(_standard.getstatusoutput)
getoutput = _bound(_standard.getoutput)
