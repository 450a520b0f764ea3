"""An agent that saves: numbered lines in two writes each, and "END PID" a while after SIGTERM.

session_writer.py LOG SAVE_MS. Says hello through the `report` program; stdin is not read.
"""

import os
import signal
import subprocess
import sys
import time

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
save_seconds = int(sys.argv[2]) / 1000
report = os.path.join(os.environ["LASTOUT_TEST_PROGRAMS"], "report")


def put(line: str) -> None:
    half = len(line) // 2
    os.write(log, line[:half].encode())
    os.write(log, line[half:].encode() + b"\n")


def save(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(save_seconds)  # the work that a SIGKILL would cut off
    put(f"END {os.getpid()}")
    os._exit(0)


signal.signal(signal.SIGTERM, save)
subprocess.run([report, str(os.getpid()), "root"], check=True)
end = time.monotonic() + int(os.environ.get("LASTOUT_TEST_TTL", "90"))
number = 0
while time.monotonic() < end:
    put(f"REC {os.getpid()} {number:06d}")
    number += 1
    time.sleep(0.02)
