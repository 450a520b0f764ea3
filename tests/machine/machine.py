"""`make machine KERNEL=…`: the supervisor as it runs on another kernel, in a virtual machine.

The machine has the kernel, and in its memory the supervisor and a guest (guest.c, watched.c), which
plays rude trees and tells on the console what came of them. Both programs are made by `zig cc` as a
wheel's is, so that any machine with QEMU can play for any other. Any Linux kernel image with a serial
console will do; one of Debian needs no module for it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUEST = [Path(__file__).with_name(name) for name in ("guest.c", "watched.c")]
SECONDS = 600  # an emulated processor is slow

# Emulated even where it could be otherwise: the same everywhere.
QEMU = {
    "aarch64": ("qemu-system-aarch64 -machine virt -cpu cortex-a72", "ttyAMA0"),
    "x86_64": ("qemu-system-x86_64 -machine q35", "ttyS0"),
}


class CannotPlay(Exception):
    """No machine can be made; the text is for the person who reads it."""


@dataclass
class Played:
    """What the console told."""

    kernel: str = ""
    results: dict[str, str] = field(default_factory=dict)
    """For each scene `ok`, or `failed: ` and why."""
    records: dict[str, list[str]] = field(default_factory=dict)
    slept_ms: list[tuple[int, int]] = field(default_factory=list)
    """By CLOCK_BOOTTIME, and what CLOCK_MONOTONIC saw of it."""
    over: bool = False
    console: str = ""

    @property
    def good(self) -> bool:
        return self.over and bool(self.results) and set(self.results.values()) == {"ok"}


def compiler(machine: str) -> list[str]:
    """A C compiler that makes static programs for that machine."""
    if told := os.environ.get("CC"):
        return shlex.split(told)
    probe = [sys.executable, "-m", "ziglang", "version"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        raise CannotPlay(
            "ziglang is not installed (pip install --group release), and CC names none"
        )
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]


def build(machine: str, into: Path) -> None:
    """`into`/supervisor and `into`/init."""
    cc = compiler(machine)
    env = {**os.environ, "CC": shlex.join(cc), "LASTOUT_LINK": "zig", "LASTOUT_MACHINE": machine}
    hook = [sys.executable, str(ROOT / "hatch_build.py"), "--output", str(into / "supervisor")]
    guest = [*cc, "-std=gnu11", "-O1", "-static", "-Wall", "-o", str(into / "init")]
    guest += map(str, GUEST)
    for command in (hook, guest):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotPlay(done.stdout + done.stderr)


def archive(files: dict[str, bytes]) -> bytes:
    """Executables as an initramfs: cpio "newc" (Linux, buffer-format.rst), compressed."""
    packed = b""
    device = {"dev": (0o040755, b"", 0, 0), "dev/console": (0o020600, b"", 5, 1)}
    entries = device | {name: (0o100755, data, 0, 0) for name, data in files.items()}
    for number, (name, (mode, data, major, minor)) in enumerate(
        [*entries.items(), ("TRAILER!!!", (0, b"", 0, 0))], 1
    ):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % one for one in fields) + name.encode() + b"\0"
        packed += head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
    return gzip.compress(packed, 1)


def play(machine: str, kernel: Path, seconds: float = SECONDS) -> Played:
    """Boot, play every scene, power off. Raises CannotPlay."""
    qemu, console = QEMU[machine]
    argv = shlex.split(qemu)
    if shutil.which(argv[0]) is None:
        raise CannotPlay(f"{argv[0]} is not installed (Debian: qemu-system-{machine[:3]})")
    with tempfile.TemporaryDirectory(prefix="lastout-machine-") as scratch:
        place = Path(scratch)
        build(machine, place)
        files = {name: (place / name).read_bytes() for name in ("init", "supervisor")}
        (place / "initramfs").write_bytes(archive(files))
        argv += ["-m", "512", "-nographic", "-no-reboot", "-nic", "none"]
        argv += ["-kernel", str(kernel), "-initrd", str(place / "initramfs")]
        argv += ["-append", f"console={console} quiet panic=-1 rdinit=/init no_console_suspend"]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            return read((error.stdout or b"").decode(errors="replace"))
    return read(done.stdout.decode(errors="replace"))


def read(console: str) -> Played:
    """The words of guest.c among whatever else a console shows."""
    played = Played(console=console)
    for line in console.replace("\r", "").splitlines():
        if found := re.search(r"\bRECORD (\S+) (\{.*\})$", line):
            played.records.setdefault(found[1], []).append(found[2])
        elif found := re.search(r"\bRESULT (\S+) (ok|failed: .*)$", line):
            played.results[found[1]] = found[2]
        elif found := re.search(r"\bKERNEL (.+)$", line):
            played.kernel = found[1]
        elif found := re.search(r"\bSLEPT (\d+) ms, of which CLOCK_MONOTONIC saw (\d+)$", line):
            played.slept_ms.append((int(found[1]), int(found[2])))
        played.over |= line.endswith("OVER")
    return played


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--machine", choices=QEMU, default="aarch64")
    parser.add_argument("--kernel", type=Path, required=True, help="an image (vmlinuz)")
    parser.add_argument("--records", action="store_true", help="print the records, too")
    options = parser.parse_args()
    try:
        played = play(options.machine, options.kernel)
    except CannotPlay as error:
        print(error, file=sys.stderr)
        return 1
    print(played.kernel or "no kernel came up")
    for slept, seen in played.slept_ms:
        print(f"  slept for {slept} ms, of which CLOCK_MONOTONIC saw {seen}")
    for scene, result in played.results.items():
        print(f"  {scene:20} {result}")
        for line in played.records.get(scene, []) if options.records or result != "ok" else []:
            print(f"      {line}")
    if not played.good and not played.over:
        print(played.console[-4000:])
    return 0 if played.good else 1


if __name__ == "__main__":
    sys.exit(main())
