"""Owners that fork, re-execute themselves or lose their event loop; see test_owners_that_change.py.

    owner_programs.py WHAT STATE

Speaks in lines: `run NAME RECORD FRONT KEEPER ROOT` for each run that it has started, processes as PID:START.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
from typing import Any

import lastout
from lastout.identity import take

WHAT, STATE = sys.argv[1:3]


def tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def start(name: str) -> Any:
    run = lastout.Popen(["sleep", "60"], stdin=lastout.PIPE, state=STATE)
    tell_run(name, run)
    return run


def tell_run(name: str, run: Any) -> None:
    processes = (run.front, run.keeper, run.root)
    tell("run", name, run.record, *(f"{one.pid}:{one.start}" for one in processes))


def wait_for_word() -> None:
    sys.stdin.readline()


def worker(name: str) -> None:
    """Has a run of its own and ends without a thought for it."""
    start(name)


def pool() -> None:
    mine = start("parent")
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=worker, args=(f"worker{n}",)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    tell("workers ended", *(child.exitcode for child in children))
    wait_for_word()
    mine.kill()
    tell("ended", mine.wait())


def prefork() -> None:
    """As gunicorn does it: the master forks its workers after it has loaded everything."""
    start("master")
    for number in range(2):
        pid = os.fork()
        if pid == 0:
            start(f"worker{number}")
            while True:
                signal.pause()
        tell("worker", number, f"{pid}:{take(pid).start}")
    wait_for_word()


def gunicorn() -> None:
    """The real one: its master brings a worker that was killed back."""
    from gunicorn.app.base import BaseApplication

    start("master")

    def worker_began(worker: Any) -> None:
        start(f"worker{worker.age}")
        tell("worker", worker.age, f"{os.getpid()}:{take(os.getpid()).start}")

    class Application(BaseApplication):
        def load_config(self) -> None:
            self.cfg.set("bind", f"unix:{STATE}-socket")
            self.cfg.set("workers", 2)
            if "control_socket_disable" in self.cfg.settings:  # it would lie in the user's home
                self.cfg.set("control_socket_disable", True)
            self.cfg.set("post_worker_init", worker_began)

        def load(self) -> Any:
            return lambda environ, start_response: []

    Application().run()


def reexec() -> None:
    if os.environ.get("AGAIN") is None:
        start("before")
        pid = os.fork()
        if pid == 0:  # a child that lives on must not hold the owner's end of the control socket
            signal.alarm(60)
            signal.pause()
        tell("worker", 0, f"{pid}:{take(pid).start}")
        wait_for_word()
        os.environ["AGAIN"] = "yes"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    start("after")
    wait_for_word()


def lost_loop() -> None:
    other = start("thread")

    async def lose() -> None:
        context = lastout.open_process(["sleep", "60"], state=STATE)
        run = await context.__aenter__()
        tell_run("loop", run)
        asyncio.get_running_loop().stop()
        await asyncio.sleep(60)

    loop = asyncio.new_event_loop()
    lost = loop.create_task(lose())
    loop.run_forever()
    loop.close()  # nobody has cancelled the task, nor left the block
    wait_for_word()
    del lost, loop
    gc.collect()
    tell("collected")
    wait_for_word()
    tell("still", other.poll())


if __name__ == "__main__":
    globals()[WHAT]()
