"""The process that starts the wrapper and may be killed for it.

    python -I -S owner.py STDIN_FD -- WRAPPER...

The wrapper's stdin is STDIN_FD, or with `-` a pipe whose only write end is held here. Says `pid N`,
then `status N` (raw) when the wrapper ended. A line on our own stdin closes that write end.
"""

import os
import select
import signal
import sys


def main() -> None:
    given, argv = sys.argv[1], sys.argv[3:]
    write_end = -1
    if given == "-":
        read_end, write_end = os.pipe()
    else:
        read_end = int(given)
        os.set_inheritable(read_end, False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, read_end, 0)]
    if not os.environ.get("BENCH_SHOW"):
        actions += [(os.POSIX_SPAWN_DUP2, nowhere, fd) for fd in (1, 2)]
    names = ("PIPE", "XFSZ", "HUP", "INT", "QUIT", "TERM")  # ignored by Python, or by a shell's `&`
    reset = [getattr(signal, f"SIG{name}") for name in names]
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsigdef=reset)
    os.close(read_end)
    print("pid", pid, flush=True)
    wrapper = os.pidfd_open(pid)
    while True:
        ready, _, _ = select.select([wrapper, 0], [], [])
        if wrapper in ready:
            print("status", os.waitpid(pid, 0)[1], flush=True)
            return
        if not os.read(0, 100):
            os._exit(0)
        if write_end >= 0:
            os.close(write_end)
            write_end = -1


if __name__ == "__main__":
    main()
