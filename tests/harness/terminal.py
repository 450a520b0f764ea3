"""A pseudo-terminal whose other end is the test."""

from __future__ import annotations

import os
import pty
import termios

from harness.hub import Hub


class Terminal:
    """`slave` is for a program's fds 0-2; what it prints is collected in `output`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._master, self.slave = pty.openpty()
        self.output = b""
        self._open = True
        hub.add(self._master, self._read)

    def _read(self) -> None:
        try:
            self.output += os.read(self._master, 65536)
        except OSError:  # EIO: no slave is open any more, and there will be none
            self.hang_up()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._master)

    def wait_output(self, text: bytes) -> None:
        self._hub.until(lambda: text in self.output, f"the terminal shows {text!r}")

    def close_slave(self) -> None:
        """The programs have it now."""
        if self.slave >= 0:
            os.close(self.slave)
            self.slave = -1

    def hang_up(self) -> None:
        if self._open:
            self._open = False
            self._hub.remove(self._master)
            os.close(self._master)

    def close(self) -> None:
        self.close_slave()
        self.hang_up()
