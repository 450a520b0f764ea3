"""A service process that kills itself at one of its steps: STATE READY-FD STEP.

STEP is empty, `COUNT` (its COUNT-th step of any kind since it can be reached) or `EVENT@WORD` (the
first such step that concerns WORD), with `+` behind it for the step after that one. A step is what
the interpreter is about to ask of the kernel, by its audit events. Every step is written to stderr.
"""

from __future__ import annotations

import os
import signal
import sys

EVENTS = frozenset({
    "open", "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.scandir",
    "os.listdir", "fcntl.flock", "shutil.rmtree",
})  # fmt: skip


def main() -> None:
    state, ready, dies = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    from lastout.services import begin, delivery, launch, server, waiting  # noqa: F401

    counting = [False, 0, False]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event not in EVENTS or not counting[0]:
            return
        counting[1] += 1
        about = " ".join(map(str, arguments[:2]))
        os.write(2, f"step {counting[1]} {event} {about}\n".encode())
        if counting[2] or dies == str(counting[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        wanted, at, word = dies.rstrip("+").partition("@")
        if at and event == wanted and word in about:
            if not dies.endswith("+"):
                os.kill(os.getpid(), signal.SIGKILL)
            counting[2] = True

    sys.addaudithook(hook)
    made = server.Server(state)
    os.write(ready, b"+")
    os.close(ready)
    counting[0] = bool(dies)
    made.run()


main()
