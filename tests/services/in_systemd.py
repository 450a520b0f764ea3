"""Services under a real manager of systemd, seen from inside of the room: MANAGER STATE DIRECTORY.

Prints one JSON object with what was seen; the test outside judges it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lastout import identity
from lastout.evidence.events import TreeGone
from lastout.evidence.settled import settled
from lastout.services import completion, starter, systemd
from lastout.services.store import Begun, Services

BOUND = 30.0


class Room:
    def __init__(self, state: Path, directory: Path, scope: str) -> None:
        self.scope = scope
        self.services = Services(str(state))
        self.state = state
        self.directory = directory
        self.up, self.go = directory / "up", directory / "go"
        for fifo in (self.up, self.go):
            os.mkfifo(fifo)
        self.ends = [os.open(fifo, os.O_RDWR | os.O_NONBLOCK) for fifo in (self.up, self.go)]

    def held(self) -> list[str]:
        script = f"echo x >>{self.directory}/ran; echo $$ >{self.up}; read line <{self.go}; exit 3"
        return ["sh", "-c", script]

    def wait_up(self) -> int:
        assert select.select([self.ends[0]], [], [], BOUND)[0], "the work does not run"
        return int(os.read(self.ends[0], 64).split()[0])

    def let_go(self) -> None:
        os.write(self.ends[1], b"go\n")

    def lastout(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Asked from a session of its own, with next to no environment."""
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        argv = [sys.executable, "-m", "lastout", *words, "--state", str(self.state)]
        return subprocess.run(
            argv, capture_output=True, text=True, start_new_session=True, env=env, check=False
        )

    def inactive(self) -> str:
        """Until the unit has ended; the manager's own word for it."""
        unit = systemd.unit_name(str(self.state), "job")
        due = time.monotonic() + BOUND
        while True:
            told = subprocess.run(
                ["systemctl", self.scope, "is-active", unit],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
            if told not in ("active", "activating", "deactivating") or time.monotonic() > due:
                return told
            time.sleep(0.05)


def main() -> None:
    manager, state, directory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scope = "--user" if manager == "systemd-user" else "--system"
    os.environ["XDG_RUNTIME_DIR"] = "/run/user/0"
    room, seen = Room(state, directory, scope), {}
    services = room.services
    result = directory / "result.json"
    seen["chosen"] = systemd.choose() == manager
    services.add("job", room.held(), manager=manager, timeout=60, result=str(result))
    unit = systemd.unit_path(str(state), "job")
    verify = subprocess.run(
        ["systemd-analyze", scope, "verify", unit], capture_output=True, text=True, check=False
    )
    seen["verify"] = [verify.returncode, verify.stderr]

    # An agent is cancelled; its own tool is stopped, the service is not.
    started = f"{sys.executable} -m lastout service start job --state {state}"
    tool = directory / "tool"
    agent = subprocess.Popen(
        [sys.executable, "-m", "lastout", "run", "--state", str(state), "--run", "agent", "--",
         "sh", "-c", f"setsid sh -c 'echo $$ >{tool}; exec sleep 300' & {started}; wait"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    pid = room.wait_up()
    seen["cgroup"] = Path(f"/proc/{pid}/cgroup").read_text().strip()
    joined = json.loads(room.lastout("service", "start", "job", "--json").stdout)
    seen["joined"] = joined["joined"]
    agent.send_signal(signal.SIGTERM)
    agent.wait(BOUND)
    gone = settled(state / "runs" / "agent" / "agent.jsonl").final
    assert isinstance(gone, TreeGone)
    seen["tool_named"] = int(tool.read_text()) in [one.pid for one in gone.stopped]
    seen["lives_on"] = services.status("job").state
    room.let_go()
    done = services.wait("job", joined["activation"], BOUND)
    seen["held"] = [done.code, done.ended_by, done.tree_gone, done.requested_by.get("run")]
    seen["result"] = json.loads(result.read_text())["activation"] == done.activation

    # Nobody waits or looks: the unit's own last step publishes.
    begun_alone = services.start("job")
    room.wait_up()
    room.let_go()
    room.inactive()
    published = completion.load(str(state), "job", begun_alone.activation)
    seen["published"] = published is not None

    # Asked for again and again, in whatever state the unit is at that moment.
    again = directory / "again"
    services.add("quick", ["sh", "-c", f"echo x >>{again}"], manager=manager)
    codes = [services.run("quick", timeout=BOUND)[1].code for _ in range(3)]
    seen["again"] = [codes, len(again.read_text().splitlines())]

    # The front is killed: its keeper goes on with the stop, and the manager lets it.
    services.start("job")
    room.wait_up()
    found = services.status("job").found
    assert found is not None
    identity.signal(found.supervisors[0], signal.SIGKILL)
    done = services.wait("job", None, BOUND)
    seen["front_killed"] = [done.ended_by, done.tree_gone]
    room.inactive()

    # Both are killed at once: nobody calls that an empty tree.
    services.start("job")
    room.wait_up()
    found = services.status("job").found
    assert found is not None
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for one in found.supervisors:
            identity.signal(one, number)
    done = services.wait("job", None, BOUND)
    seen["both_killed"] = [done.ended_by, done.tree_gone, done.failed]
    room.inactive()

    # The owner's stop, and the manager's own.
    services.start("job")
    room.wait_up()
    done = services.stop("job")
    seen["stopped"] = [done.ended_by, done.tree_gone]
    room.inactive()
    services.start("job")
    room.wait_up()
    name = systemd.unit_name(str(state), "job")
    subprocess.run(["systemctl", scope, "stop", name], check=True)
    done = services.wait("job", None, BOUND)
    seen["by_manager"] = [done.ended_by, done.reason, done.tree_gone]

    # Two at once.
    begun: list[Begun] = []
    both = [threading.Thread(target=lambda: begun.append(services.start("job"))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(BOUND)
    room.wait_up()
    room.let_go()
    services.wait("job", None, BOUND)
    seen["two"] = [len({one.activation for one in begun}), sorted(one.joined for one in begun)]
    room.inactive()
    seen["ran"] = len((directory / "ran").read_text().splitlines())
    seen["completions"] = len(list((state / "services" / "job" / "activations").iterdir()))

    seen["runner"] = runner(room)
    services.remove("job")
    seen["removed"] = subprocess.run(
        ["systemctl", scope, "cat", name], capture_output=True, check=False
    ).returncode
    print(json.dumps(seen))


def runner(room: Room) -> Any:
    """A job runner that is asked for from inside of a run; None without a message bus."""
    if not os.path.exists("/run/user/0/bus"):
        return None
    from lastout import jobs

    if not starter.runner_route(str(room.state)):
        return "no route"
    script = (
        "import sys; from lastout import jobs\n"
        "store = jobs.open_jobs(sys.argv[1])\n"
        "print(store.submit(jobs.Command(['sh', '-c', 'exit 0'], cwd='/')).id)\n"
    )
    argv = [
        sys.executable,
        "-m",
        "lastout",
        "run",
        "--no-record",
        "--",
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run([*argv, str(room.state)], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    return jobs.open_jobs(str(room.state)).get(done.stdout.strip()).wait(BOUND).failed


main()
