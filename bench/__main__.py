"""python -m bench [PART ...]: measure, print, and write bench/results/."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from .measure import BENCH, PEERS, SUPERVISOR, Number, table

RESULTS = BENCH / "results"
README = BENCH.parent / "README.md"
NUMBERS = (
    "stops",
    "starts",
    "terminal",
    "many",
    "leases",
    "host",
    "evidence",
    "jobs",
    "mcp",
    "web",
)
"""The parts that measure promised numbers; each is a module with `measure(rounds, progress)`."""
PARTS = ("peers", "cost", *NUMBERS)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_peers(options: argparse.Namespace) -> tuple[str, object]:
    from .peers import all_wrappers
    from .peers.provision import provision
    from .peers.table import as_data, fill, markdown

    if not options.no_install:
        for problem in provision(PEERS):
            progress(problem)
    wrappers = all_wrappers(PEERS)
    grace = 1.0 if options.short else 3.0
    patience = 2.5 if options.short else 7.0
    rows = fill(wrappers, grace=grace, patience=patience, progress=progress)
    return markdown(rows, wrappers), as_data(rows)


def run_cost(options: argparse.Namespace) -> tuple[str, object]:
    from .cost import measure

    return measure(options.rounds, progress)


def run_numbers(part: str, options: argparse.Namespace) -> tuple[str, object]:
    module = import_module(f".{part}", __package__)
    more = {"runs": 2_000} if part == "evidence" and options.short else {}
    numbers: list[Number] = module.measure(options.rounds, progress, **more)
    return numbers_table(numbers), [vars(number) for number in numbers]


def numbers_table(numbers: list[Number]) -> str:
    rows = [
        [
            n.what,
            f"{n.measured:.2f} {n.unit}".strip(),
            f"{n.limit:g}",
            "yes" if n.kept else "**no**",
            n.detail,
        ]
        for n in numbers
    ]
    return table(["number", "measured", "at most", "kept", "how"], rows)


def write(folder: Path, name: str, markdown: str, data: object, command: str) -> None:
    """NAME.md for people, NAME.json for programs; both say how they came about."""
    folder.mkdir(parents=True, exist_ok=True)
    where = (
        f"Linux {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    head = f"`{command}` on {where}."
    (folder / f"{name}.md").write_text(f"{head}\n\n{markdown}\n")
    kept = {"command": command, "machine": where, "results": data}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{markdown}\n")


def into_readme(part: str, markdown: str, folder: Path) -> None:
    """Put a table between its two marks in the README; all numbers share one table."""
    name = "numbers" if part in NUMBERS else part
    if name == "numbers":
        kept = [folder / f"{each}.json" for each in NUMBERS]
        found = [json.loads(path.read_text())["results"] for path in kept if path.exists()]
        markdown = numbers_table([Number(**each) for results in found for each in results])
    mark, end = f"<!-- bench:{name} -->\n", "<!-- bench:end -->"
    head, there, rest = README.read_text().partition(mark)
    if there:
        README.write_text(f"{head}{mark}{markdown}\n{end}{rest.partition(end)[2]}")


def priority() -> list[str]:
    """How this was started, where the machine had other work to do meanwhile."""
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        return [f"chrt -f {os.sched_getparam(0).sched_priority}"]
    return [f"nice -n {os.nice(0)}"] if os.nice(0) else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all"
    )
    parser.add_argument(
        "--short", action="store_true", help="short graces and few rounds; a quick look"
    )
    parser.add_argument("--rounds", type=int, help="starts for each median (default 200, short 20)")
    parser.add_argument("--no-install", action="store_true", help="take the peers that are there")
    parser.add_argument(
        "--results", type=Path, help=f"default: {RESULTS}; with --short: build/bench"
    )
    parser.add_argument("--readme", action="store_true", help="put the tables into the README too")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if not SUPERVISOR.exists():
        parser.error("the supervisor is not built; `make native` does it")
    options.rounds = options.rounds or (20 if options.short else 200)
    folder = options.results or (BENCH.parent / "build" / "bench" if options.short else RESULTS)
    command = " ".join([*priority(), "python -m bench", *sys.argv[1:]])
    for part in options.parts or PARTS:
        if part in NUMBERS:
            markdown, data = run_numbers(part, options)
        else:
            markdown, data = {"peers": run_peers, "cost": run_cost}[part](options)
        write(folder, part, markdown, data, command)
        if options.readme:
            into_readme(part, markdown, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
