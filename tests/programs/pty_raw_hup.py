"""On a terminal: raw mode without echo, HUP ignored, a job in its own group and a nohup'd tool.

Dies of SIGTERM without restoring the terminal. Needs a terminal on fd 0, else ends with 77.
"""

import os
import signal
import subprocess
import sys
import tty

if not os.isatty(0):
    sys.exit(77)
report = os.path.join(os.environ["LASTOUT_TEST_PROGRAMS"], "report")
for number in (signal.SIGHUP, signal.SIGTTOU):
    signal.signal(number, signal.SIG_IGN)
tty.setraw(0)
job = subprocess.Popen(["sleep", "90"], process_group=0)
tool = subprocess.Popen(
    ["nohup", "sleep", "90"],
    start_new_session=True,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
for pid, role in ((job.pid, "job"), (tool.pid, "tool"), (os.getpid(), "root")):
    subprocess.run([report, str(pid), role], check=True)
signal.pause()
