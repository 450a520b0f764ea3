"""How hosts stop what they start: the table of the README, with the supervisor and without it.

    python tests/hosts/survey.py [--rounds N] [--only HOST ...] [--json] [--together N] [--readme]

Each cell is an owner process (owners.py) whose host has started an agent with children A (its
group) and B (a session of its own), which ignore TERM, INT and HUP. Then the host stops it, or the
owner gets SIGKILL. The cell says who is alive: without the supervisor 0.3 s after the host's stop
and 7 s after the SIGKILL, with it when the bound of the run and the margin are over.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from lastout.graces import MARGIN, PRESETS

HERE = Path(__file__).parent
TTL = 60
AFTER_STOP = 0.3
AFTER_KILL = 7.0
STARTING = 90.0  # seconds for a host to come up, on a machine that does other things too


@dataclass(frozen=True)
class Host:
    """A host, the package it comes from, and the preset that fits its patience."""

    name: str
    label: str
    package: str | None
    preset: str = "default"
    bare: bool = True
    """There is a row without the supervisor too; an integration of ours has none."""


HOSTS = (
    Host("subprocess", "subprocess (terminate, 2 s, kill)", None),
    Host("popen", "`lastout.Popen`", None, bare=False),
    Host("asyncio", "asyncio (terminate, 2 s, kill)", None),
    Host("anyio", "anyio cancel", "anyio"),
    Host("trio", "trio cancel", "trio", "trio"),
    Host("mcp", "mcp", "mcp", "mcp"),
    Host("mcp transport", "mcp, our `transport`", "mcp", "mcp", bare=False),
    Host("acp", "acp", "acp", "acp"),
    Host("claude", "claude-agent-sdk", "claude_agent_sdk", "claude-sdk"),
    Host("claude transport", "claude-agent-sdk, our `Transport`", "claude_agent_sdk", "claude-sdk",
         bare=False),
    Host("codex", "openai-codex", "openai_codex", "codex-sdk"),
    Host("jupyter", "jupyter_client, ipykernel", "ipykernel", "jupyter"),
    Host("dask", "dask Subprocess", "distributed"),
)  # fmt: skip

Manner = Literal["polite", "stubborn"]
How = Literal["stop", "kill"]


@dataclass
class Cell:
    """What was found in one cell: who is alive, and what the host's own stop took (seconds)."""

    host: str
    supervised: bool
    manner: Manner
    how: How
    alive: str = ""
    took: float | None = None
    trouble: str = ""


def cells(
    hosts: Iterable[Host], supervision: Sequence[bool] = (True, False)
) -> list[tuple[Host, Cell]]:
    return [
        (host, Cell(host.name, supervised, manner, how))
        for host in hosts
        for supervised in supervision
        for how in ("stop", "kill")
        for manner in ("polite", "stubborn")
        if supervised or host.bare
    ]


def missing(host: Host) -> str | None:
    """Why this host cannot be looked at here."""
    if host.package is None:
        return None
    import importlib.util

    if importlib.util.find_spec(host.package) is None:
        return f"{host.package} is not installed (pip install --group hosts)"
    if host.name == "jupyter":
        from importlib.metadata import entry_points

        if not entry_points(group="jupyter_client.kernel_provisioners", name="lastout-provisioner"):
            return "lastout itself is not installed here, so Jupyter cannot find its provisioner"
    return None


async def look(host: Host, cell: Cell, slack: float = 0.0) -> Cell:
    """Run one cell. `slack` (seconds) is added to the bound, for a machine that is busy."""
    directory = Path(tempfile.mkdtemp(prefix="survey-"))
    roll = directory / "roll"
    words = [sys.executable, str(HERE / "owners.py"), host.name]
    words += ["with" if cell.supervised else "without"]
    words += [str(roll), str(TTL), cell.manner, str(directory / "state")]
    with (directory / "stderr").open("wb") as stderr:
        owner = await asyncio.create_subprocess_exec(
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    pidfds: dict[str, int] = {}
    try:
        assert owner.stdin is not None and owner.stdout is not None
        line = await asyncio.wait_for(owner.stdout.readline(), STARTING)
        if line != b"up\n":
            raise RuntimeError("the host did not come up")
        pidfds = dict(_pinned(roll))
        bound = PRESETS[host.preset].max_stop + MARGIN + slack if cell.supervised else 0.0
        if cell.how == "kill":
            owner.kill()
            bound = bound or AFTER_KILL
        else:
            owner.stdin.write(b"stop\n")
            line = await asyncio.wait_for(owner.stdout.readline(), STARTING)
            if not line.startswith(b"stopped "):
                raise RuntimeError("the host did not stop")
            cell.took = float(line.split()[1])
            bound = bound or AFTER_STOP
        cell.alive = await _alive(pidfds, bound)
    except (RuntimeError, TimeoutError, OSError) as error:
        said = (directory / "stderr").read_text(errors="replace").strip().splitlines()
        cell.trouble = f"{error or type(error).__name__}: {said[-1] if said else 'no word of it'}"
    finally:
        if owner.returncode is None:
            owner.kill()
        await owner.wait()
        for role, fd in _pinned(roll):
            if pidfds.setdefault(role, fd) != fd:
                os.close(fd)
        for fd in pidfds.values():
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
        await _alive(pidfds, AFTER_KILL)
        for fd in pidfds.values():
            os.close(fd)
        shutil.rmtree(directory, ignore_errors=True)
    return cell


def _pinned(roll: Path) -> list[tuple[str, int]]:
    """A pidfd of everybody who has signed and is still there, proven by the start time."""
    found = []
    try:
        lines = roll.read_text().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        entry = json.loads(line)
        try:
            fd = os.pidfd_open(entry["pid"])
        except ProcessLookupError:
            continue
        if _start(entry["pid"]) == entry["start"]:
            found.append((entry["role"], fd))
        else:
            os.close(fd)
    return found


def _start(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


async def _alive(pidfds: dict[str, int], bound: float) -> str:
    """Who is alive when the bound is over, or earlier when nobody is."""
    ends = time.monotonic() + bound
    while True:
        poll = select.poll()
        for fd in pidfds.values():
            poll.register(fd, select.POLLIN)
        dead = {fd for fd, _ in poll.poll(0)}
        alive = sorted(role for role, fd in pidfds.items() if fd not in dead)
        left = ends - time.monotonic()
        if not alive or left <= 0:
            return " ".join(sorted(alive, key=["agent", "A", "B"].index))
        await asyncio.sleep(min(left, 0.02))


async def survey(
    wanted: Sequence[tuple[Host, Cell]], *, together: int = 3, slack: float = 0.0
) -> list[Cell]:
    """Run cells, so many at a time. This process adopts what the owners leave behind."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: pid 1 may reap late
    turns = asyncio.Semaphore(together)

    async def one(host: Host, cell: Cell) -> Cell:
        async with turns:
            return await look(host, cell, slack)

    try:
        return list(await asyncio.gather(*(one(host, cell) for host, cell in wanted)))
    finally:
        while True:  # what came up to us and is dead
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


def table(found: Sequence[Cell], hosts: Sequence[Host]) -> str:
    """The rows of the README, markdown. A dash is nobody."""
    heads = ["host", "polite agent, stop", "stubborn agent, stop", "kill -9 owner, polite",
             "kill -9 owner, stubborn"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for supervised in (False, True):
        for host in hosts:
            row = [
                _cell([c for c in found if (c.host, c.supervised, c.how, c.manner)
                       == (host.name, supervised, how, manner)])
                for how in ("stop", "kill") for manner in ("polite", "stubborn")
            ]  # fmt: skip
            if any(row):
                label = f"**{host.label}, with lastout**" if supervised else host.label
                lines.append("| " + " | ".join([label, *row]) + " |")
    return "\n".join(lines)


def _cell(rounds: Sequence[Cell]) -> str:
    if not rounds:
        return ""
    if any(cell.trouble for cell in rounds):
        return "not measured"
    # The worst round is what counts.
    worst = max(rounds, key=lambda cell: (len(cell.alive), cell.took or 0))
    took = f" ({worst.took:.1f} s)" if worst.took is not None else ""
    return (worst.alive or "-") + took


def into_readme(markdown: str) -> None:
    """Put the table between its two marks."""
    readme = HERE.parents[1] / "README.md"
    mark, end = "<!-- survey:hosts -->\n", "<!-- survey:end -->"
    head, found, rest = readme.read_text().partition(mark)
    if found:
        readme.write_text(f"{head}{mark}{markdown}\n{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--together", type=int, default=3)
    parser.add_argument("--with-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--readme", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    hosts = []
    for host in HOSTS:
        if options.only and host.name not in options.only:
            continue
        if (why := missing(host)) is not None:
            print(f"{host.label}: {why}", file=sys.stderr)
        else:
            hosts.append(host)
    supervision = (True,) if options.with_only else (True, False)
    wanted = [pair for _ in range(options.rounds) for pair in cells(hosts, supervision)]
    found = asyncio.run(survey(wanted, together=options.together))
    print(json.dumps([asdict(cell) for cell in found]) if options.json else table(found, hosts))
    if options.readme:
        into_readme(table(found, hosts))
    for cell in found:
        if cell.trouble or (cell.supervised and cell.alive):
            print(cell, file=sys.stderr)


if __name__ == "__main__":
    main()
