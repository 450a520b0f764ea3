"""The agent that every wrapper gets to run: R, with G in its group and E escaped from it.

    python -I -S payload.py SOCKET TTL MODE

Each of the three connects to SOCKET (AF_UNIX), says its name and holds the connection for as long
as it lives; R also says which signals reached it. G and E ignore TERM, INT and HUP. MODE is what R
does: `obey` ends with status 0 on a signal, `ignore` only reports it, `read` ends at the end of its
stdin. A byte from the other side makes R exit 7 by itself. TTL seconds end all three in any case.
"""

import os
import select
import signal
import socket
import sys
from typing import Any

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def connect(path: str, name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(f"{name}\n".encode())
    return connection


def stay(path: str, name: str, ttl: int) -> None:
    """Be G or E: there, deaf, and without anybody's stdio."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    signal.alarm(ttl)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    connection = connect(path, name)
    connection.recv(1)  # never comes; the end of the harness ends us
    os._exit(0)


def escape(path: str, ttl: int) -> None:
    """Be E's parents: a new session, then a fork whose parent ends at once."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    stay(path, "E", ttl)


def main() -> None:
    path, ttl, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    signal.alarm(ttl)
    if os.fork() == 0:
        stay(path, "G", ttl)
    escape(path, ttl)
    connection = socket.socket(socket.AF_UNIX)

    def on_signal(number: int, frame: object) -> None:
        connection.sendall(f"{signal.Signals(number).name[3:]}\n".encode())
        if mode != "ignore":
            os._exit(0)

    connection.connect(path)
    for number in STOPS:
        signal.signal(number, on_signal)
    connection.sendall(b"R\n")
    readable: list[Any] = [connection, 0] if mode == "read" else [connection]
    while True:
        ready, _, _ = select.select(readable, [], [])
        if connection in ready:
            os._exit(7 if connection.recv(1) else 0)
        if not os.read(0, 4096):
            os._exit(0)


if __name__ == "__main__":
    main()
