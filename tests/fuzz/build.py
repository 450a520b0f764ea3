"""The fuzzers of what the supervisor reads from outside, built with clang's libFuzzer and sanitizers.

As a script it runs each for a while: `python tests/fuzz/build.py --seconds 60` (`make fuzz`).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUTPUT = ROOT / "build" / "fuzz"
INSTEAD = {"control": "control.c", "stat": None, "argv": "spec.c"}
"""The fuzzers, and the source that each includes to see its insides."""

FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-g",
    "-O1",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
    "-Wno-unused-value",
    "-Dmain=supervisor_main",
)


def missing() -> str | None:
    """What this machine lacks for it, for people."""
    if shutil.which("clang") is None:
        return "clang is not installed"
    with tempfile.TemporaryDirectory() as scratch:
        probe = Path(scratch, "probe.c")
        probe.write_text("int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }\n")
        command = ["clang", "-fsanitize=fuzzer,address", "-o", f"{scratch}/probe", str(probe)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return "clang has no libFuzzer (apt install libclang-rt-dev)"
    return None


def build(output: Path = OUTPUT) -> dict[str, Path]:
    """All of them. Raises CalledProcessError; the compiler's words are on stderr."""
    output.mkdir(parents=True, exist_ok=True)
    native = ROOT / "native"
    sources = sorted(native.glob("*.c"))
    subprocess.run(["clang", *FLAGS, "-c", *map(str, sources)], cwd=output, check=True)
    programs = {}
    for name, included in INSTEAD.items():
        programs[name] = output / f"fuzz_{name}"
        objects = [str(output / f"{path.stem}.o") for path in sources if path.name != included]
        command = ["clang", *FLAGS, f"-I{native}", f"-I{HERE}", "-o", str(programs[name])]
        subprocess.run([*command, str(HERE / f"fuzz_{name}.c"), *objects], check=True)
    return programs


def run(program: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Let it go on from the corpus; what it learns goes to a directory beside the program."""
    learned = program.with_name(f"corpus-{name}")
    learned.mkdir(exist_ok=True)
    command = [str(program), "-timeout=10", "-rss_limit_mb=1024", "-max_len=8192", "-verbosity=0"]
    command += ["-print_final_stats=1", f"-artifact_prefix={program.parent}/{name}-", *options]
    command += [str(learned), str(HERE / "corpus" / name)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the fuzzers, one after the other.")
    parser.add_argument("--seconds", type=int, default=60, help="for all together")
    options = parser.parse_args()
    if (lacks := missing()) is not None:
        print(f"the fuzzers cannot be built: {lacks}", file=sys.stderr)
        return 1
    failed = False
    for name, program in build().items():
        print(f"fuzz_{name} ...", flush=True)
        each = max(1, options.seconds // len(INSTEAD))
        done = run(program, name, f"-max_total_time={each}")
        if done.returncode:
            failed = True
            print(done.stderr)
        else:
            stats = [line for line in done.stderr.splitlines() if line.startswith("stat::")]
            print(f"  {stats[0].split()[-1]} inputs, nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
