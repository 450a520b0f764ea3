"""A real interactive shell on a terminal, typed at and read by events: on a PTY of ours, or in tmux."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.hub import BOUND_SECONDS, Hub

_KEYS = {"C-c": b"\x03", "C-z": b"\x1a", "C-d": b"\x04", "C-\\": b"\x1c", "Escape": b"\x1b"}
_ESCAPED = re.compile(rb"\\([0-7]{3})")

PROMPT = "ready> "


class Shell(ABC):
    """What is typed and what is seen. A wait begins where the one before found its text."""

    def __init__(self, hub: Hub, directory: Path) -> None:
        self.hub = hub
        self.directory = directory
        self.seen = b""
        self._position = 0
        self._asked = 0
        self.pid = 0

    def greet(self) -> None:
        """Until the shell is there."""
        self.prompt()
        self.pid = self.pid or int(self.value("$$"))

    @abstractmethod
    def type(self, text: str) -> None:
        """Characters as somebody types them, without Enter."""

    @abstractmethod
    def key(self, name: str) -> None:
        """A key by its name in tmux."""

    @abstractmethod
    def close(self) -> None:
        """Ends the shell and its terminal."""

    def wait(self, text: str, bound: float = BOUND_SECONDS) -> None:
        """Until `text` is written, after what was waited for before."""
        wanted = text.encode()
        self.hub.until(
            lambda: wanted in self.seen[self._position :],
            f"{text!r} on the terminal; it shows {self.seen[self._position :][-2000:]!r}",
            bound,
        )
        self._position = self.seen.index(wanted, self._position) + len(wanted)

    def prompt(self) -> None:
        """Until the shell asks for the next command."""
        self.wait(PROMPT)

    def line(self, text: str) -> None:
        """A line, typed; it is not waited for."""
        self.type(text + "\r")

    def command(self, text: str) -> None:
        """A line, typed and carried out."""
        self.line(text)
        self.prompt()

    def fg(self) -> None:
        """`fg`, carried out: what is typed from now on is the job's."""
        self.line("fg")
        self.handed_over()

    def handed_over(self, pid: int | None = None) -> None:
        """Until another group than the shell's has the terminal: what is typed before that may
        still be read, or thrown away, by the shell. `pid`: of another shell on this terminal."""
        shell = pid or self.pid

        def others() -> bool:
            fields = Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()
            return int(fields[5]) not in (-1, int(fields[2]))  # tpgid, pgrp: proc(5)

        self.hub.look(others, f"shell {shell} hands its terminal over")

    def modes(self) -> str:
        """The terminal's modes and the flags of its description, as this shell has them."""
        self._asked += 1
        path = self.directory / f"stty{self._asked}"
        self.command(f"stty -a > {path}; grep flags /proc/self/fdinfo/0 >> {path}")
        return path.read_text()

    def value(self, expression: str) -> str:
        """What the shell makes of an expression."""
        self._asked += 1
        path = self.directory / f"value{self._asked}"
        self.command(f'echo "{expression}" > {path}')
        return path.read_text().rstrip("\n")


class PtyShell(Shell):
    """A shell that leads a session on a PTY of ours, as below a terminal emulator or ssh."""

    def __init__(
        self, hub: Hub, directory: Path, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        super().__init__(hub, directory)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(argv[0], list(argv), dict(env))
        self.resize(30, 100)
        hub.add(self.master, self._read)
        self._open = True

    def _read(self) -> None:
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: nobody has the terminal any more
            data = b""
        self.seen += data
        if not data:
            self.hub.remove(self.master)
            self._open = False

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def key(self, name: str) -> None:
        os.write(self.master, _KEYS[name])

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    @property
    def ended(self) -> bool:
        """Nobody has the terminal any more."""
        return not self._open

    def close(self) -> None:
        if self._open:
            self.hub.remove(self.master)
        os.close(self.master)  # the shell is told by SIGHUP
        try:
            os.kill(self.pid, signal.SIGCONT)
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


class TmuxShell(Shell):
    """A shell in a tmux of its own, whose control mode tells what is written as it comes."""

    def __init__(
        self, hub: Hub, directory: Path, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        super().__init__(hub, directory)
        self._tmux = ["tmux", "-S", str(directory / "tmux"), "-f", "/dev/null"]
        start = [*self._tmux, "-C", "new-session", "-x", "100", "-y", "30", *argv]
        self._client = subprocess.Popen(
            start,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**env, "TERM": "screen"},
            cwd=directory,
        )
        assert self._client.stdout is not None
        self._rest = b""
        self._open = True
        hub.add(self._client.stdout.fileno(), self._read)

    def _read(self) -> None:
        assert self._client.stdout is not None
        data = os.read(self._client.stdout.fileno(), 65536)
        if not data:
            self.hub.remove(self._client.stdout.fileno())
            self._open = False
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"%output "):
                text = line.split(b" ", 2)[2].rstrip(b"\r")
                self.seen += _ESCAPED.sub(lambda m: bytes([int(m[1], 8)]), text)

    def _tell(self, command: str) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(command.encode() + b"\n")
        self._client.stdin.flush()

    def type(self, text: str) -> None:
        for part in re.split("(\r)", text):
            if part == "\r":
                self._tell("send-keys Enter")
            elif part:
                quoted = part.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
                self._tell(f'send-keys -l "{quoted}"')

    def key(self, name: str) -> None:
        self._tell(f"send-keys {name}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)
        if self._open:
            self.hub.until(lambda: not self._open, "tmux ends")
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.close()
        self._client.stdout.close()
        self._client.wait()
