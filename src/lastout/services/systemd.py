"""Services run by systemd: the unit's text, and the few things that are asked of its manager.

A unit belongs to one service. Its process takes the accepted activation and becomes the
supervisor; `ExecStopPost=` publishes what became of it, whatever happened to the main process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from typing import Final

from lastout.graces import MARGIN, resolve
from lastout.services import layout, sentences
from lastout.services.definition import Definition
from lastout.services.errors import NoRoute, ServiceError
from lastout.state import locate

__all__ = [
    "available",
    "choose",
    "install",
    "remove",
    "run_apart",
    "start",
    "unit_name",
    "unit_path",
    "unit_text",
]

_ASK_BOUND: Final = 15.0
"""Seconds: how long systemctl may take to hand a request over."""

_UNIT: Final = """\
# Written by `lastout service add`, removed by `lastout service remove`.
[Unit]
Description=lastout service {name}
# How often it is started is its callers' affair; what cannot be started is given up by lastout.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={program} unit-start {arguments}
ExecStopPost={program} unit-stopped {arguments}
{environment}StandardInput=null
Restart=no
# The supervisor alone gets SIGTERM; it stops its tree within its own bound. The unit lasts until
# the last process has gone: a front that is killed leaves the stop to its keeper.
KillMode=mixed
ExitType=cgroup
TimeoutStopSec={stop:g}
"""


def available(manager: str) -> bool:
    """Whether this manager really runs here and answers (sd_booted(3))."""
    if not os.path.isdir("/run/systemd/system") or shutil.which("systemctl") is None:
        return False
    if manager == "systemd" and os.geteuid() != 0:
        return False
    return _ask(manager, "show", "--property=Version").returncode == 0


def choose() -> str:
    """The manager that is there: the system's for root, the user's, or ours."""
    return next(filter(available, ("systemd", "systemd-user")), "lastout")


def unit_name(state: str, name: str) -> str:
    """The unit of a service; another state directory's services have units of their own."""
    mark = ""
    try:
        usual = os.path.join(_home(), ".local", "state", "lastout")
    except OSError:
        usual = ""
    if os.path.realpath(state) != os.path.realpath(usual):
        mark = "-" + hashlib.sha256(os.fsencode(state)).hexdigest()[:8]
    return f"lastout-{name}{mark}.service"


def unit_path(state: str, name: str) -> str:
    """Where its text is: with the service itself; the manager is given a link to it."""
    return os.path.join(layout.service_directory(state, name), unit_name(state, name))


def unit_text(state: str, definition: Definition) -> str:
    """The whole unit file (systemd.service(5))."""
    stop = resolve(definition.budget).max_stop + 2 * MARGIN
    program = " ".join(map(_quoted, (sys.executable, "-P", "-m", "lastout", "service")))
    arguments = f"--state {_quoted(state)} {_quoted(definition.name)}"
    root = _import_root()
    environment = f"Environment={_quoted('PYTHONPATH=' + root)}\n" if root else ""
    return _UNIT.format(
        name=definition.name,
        program=program,
        arguments=arguments,
        environment=environment,
        stop=stop,
    )


def install(state: str, definition: Definition) -> None:
    """Write the unit and make it known to its manager. Raises NoRoute, ServiceError, OSError."""
    if not available(definition.manager):
        raise NoRoute(sentences.no_manager(definition.manager))
    from lastout.durable import replace

    path = unit_path(state, definition.name)
    replace(path, unit_text(state, definition).encode())
    _told(definition.manager, "link", path)
    _told(definition.manager, "daemon-reload")


def remove(state: str, definition: Definition) -> None:
    """Take the unit away. Raises ServiceError when the manager refuses."""
    _told(definition.manager, "disable", unit_name(state, definition.name))
    _told(definition.manager, "daemon-reload")


def start(state: str, definition: Definition) -> None:
    """Ask for the unit's start and do not wait; one that runs is left alone.

    Raises NoRoute when the manager does not answer.
    """
    done = _ask(definition.manager, "start", "--no-block", unit_name(state, definition.name))
    if done.returncode:
        raise NoRoute(sentences.unit_not_started(done.stderr.strip()))


def run_apart(argv: list[str]) -> bool:
    """Run a command of ours in a unit of its own, below the user's (root's: the system's) manager."""
    manager = choose()
    if shutil.which("systemd-run") is None or manager == "lastout":
        return False
    words = ["systemd-run", *_scope(manager), "--quiet", "--collect", "--property=KillMode=process"]
    done = subprocess.run(
        [*words, "--", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environment(),
        timeout=_ASK_BOUND,
        check=False,
    )
    return done.returncode == 0


def _told(manager: str, *words: str) -> None:
    done = _ask(manager, *words)
    if done.returncode:
        raise ServiceError(sentences.systemctl_failed(words[0], done.stderr.strip()))


def _ask(manager: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["systemctl", *_scope(manager), "--no-ask-password", "--quiet", *words]
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=_ASK_BOUND,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"no answer within {_ASK_BOUND:g} s")


def _scope(manager: str) -> tuple[str, ...]:
    return ("--user",) if manager == "systemd-user" else ("--system",)


def _environment() -> dict[str, str]:
    """Hosts trim the environment; the manager is found by the uid alone."""
    return {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}


def _quoted(word: str) -> str:
    """One word of a command line in a unit (systemd.syntax(7), systemd.service(5))."""
    plain = word.replace("%", "%%").replace("$", "$$")
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _import_root() -> str | None:
    """Where this package was found, when only PYTHONPATH names it: the unit has none."""
    import lastout

    root = os.path.dirname(os.path.dirname(os.path.abspath(lastout.__file__)))
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return root if root in map(os.path.abspath, filter(None, named)) else None


def _home() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.path.dirname(locate(None))
