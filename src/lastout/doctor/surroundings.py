"""Where this process runs: containers, and who stands between it and the person who started it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lastout.doctor.finding import Finding
from lastout.proctable import read_stat

__all__ = ["check"]

_DEEPEST = 64
_MARKS = {
    "/.dockerenv": "Docker",
    "/run/.containerenv": "Podman",
    "/run/systemd/container": "a container of systemd's",
    "/var/run/secrets/kubernetes.io": "Kubernetes",
}
# Who only starts others: a program that stands for an owner further up.
_BETWEEN = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "uv", "uvx", "npx", "npm", "node", "sudo", "su", "env",
     "timeout", "pipx", "poetry", "make", "xargs"}
)  # fmt: skip


def check() -> Iterator[Finding]:
    """The pid namespace, pid 1, the parents up to it, the terminal."""
    yield _container()
    yield from _first()
    yield _parents()
    yield _terminal()


def _container() -> Finding:
    named = next((name for path, name in _MARKS.items() if os.path.exists(path)), None)
    depth = _namespaces()
    if named is None and depth <= 1:
        return Finding("container", "good", "none was recognised")
    where = named or "a pid namespace of its own"
    meaning = "work handed to the runtime's own service (another container) is not a descendant"
    return Finding("container", "note", where, meaning)


def _namespaces() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("NSpid:"):
                    return len(line.split()) - 1
    except OSError:
        pass
    return 0


def _first() -> Iterator[Finding]:
    try:
        name = read_stat(1).name
    except OSError:
        return
    if os.getpid() == 1:
        yield Finding("pid 1", "note", "this process", "a supervisor as pid 1 is an init too")
    else:
        # It plays no part in a proof: what a supervisor has adopted, it reaps itself.
        yield Finding("pid 1", "good", name)


def _parents() -> Finding:
    names = []
    pid = os.getpid()
    for _ in range(_DEEPEST):
        try:
            pid = read_stat(pid).ppid
            if pid <= 1:
                break
            names.append(f"{read_stat(pid).name} ({pid})")
        except OSError:
            break
    chain = " < ".join(names) or "none that can be seen"
    if names and names[0].split()[0] in _BETWEEN:
        return Finding(
            "parents", "note", chain,
            f"{names[0]} stands between: its death stops a run that is started from here, and so "
            "does the death of an owner further up that is named (--owner PID:START)",
        )  # fmt: skip
    return Finding("parents", "good", chain)


def _terminal() -> Finding:
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return Finding("terminal", "good", "none", "a command gets a session of its own")
    os.close(fd)
    meaning = "a command in the foreground shares it: Ctrl-C arrives once, Ctrl-Z and fg work"
    return Finding("terminal", "good", "there is one", meaning)
