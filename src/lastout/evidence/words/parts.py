"""Parts of sentences: names, numbers, and how a sentence is registered for a kind of claim."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

Facts = Mapping[str, Any]
SENTENCES: dict[str, Callable[[Facts], str]] = {}


def says(*kinds: str) -> Callable[[Callable[[Facts], str]], Callable[[Facts], str]]:
    def register(write: Callable[[Facts], str]) -> Callable[[Facts], str]:
        for kind in kinds:
            SENTENCES[kind] = write
        return write

    return register


def always(kind: str, text: str) -> None:
    SENTENCES[kind] = lambda facts: text


def command_line(argv: list[str] | tuple[str, ...], width: int = 72) -> str:
    """A command line on one line, as a shell would take it, cut to `width` characters."""
    line = visible(shlex.join(argv))
    return line if len(line) <= width else line[: width - 1] + "…"


def signal_name(name: str | None) -> str:
    if not name:
        return "a signal"
    return name if name.startswith("SIG") or not name[:1].isalpha() else f"SIG{name}"


def number(count: int, noun: str = "process") -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"1 {noun}" if count == 1 else f"{count} {plural}"


def others(count: int | None) -> str:
    if count is None:
        return "other members"
    return "1 other process" if count == 1 else f"{count} other processes"


def was(count: int) -> str:
    return "was" if count == 1 else "were"


def times(count: int | None) -> str:
    return "not counted" if count is None else number(count, "signal")


def milliseconds(value: float) -> str:
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def listed(f: Facts) -> str:
    names = [f"{visible(one['name']) or '?'} (pid {one['pid']})" for one in f["names"]]
    if not names:
        return ""
    more = (f["count"] or len(names)) - len(names)
    return ": " + ", ".join(names) + (f" and {more} more" if more > 0 else "")


def ended(f: Facts) -> str:
    if f["signal"]:
        return f"was ended by {signal_name(f['signal'])}"
    return "ended" if f["code"] is None else f"exited with code {f['code']}"


def process(process: Mapping[str, Any]) -> str:
    exe = process.get("exe")
    name = visible(process["name"]) or (visible(exe.rsplit("/", 1)[-1]) if exe else "")
    start = f", start {process['start']}" if process.get("start") else ""
    return f"pid {process['pid']} ({name or 'name not known'}{start})"


def _role_name(role: str) -> str:
    return "the owner, " if role == "owner" else ""


def shell(f: Facts) -> str:
    command = f.get("command")
    if command is None:
        return "a command that it did not name"
    line = visible(command)
    return code(line if len(line) <= 72 else line[:71] + "…")


def code(text: str) -> str:
    return f"`{text}`"


def visible(text: Any) -> str:
    """Control characters as escapes: no record may write to a reader's terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text)
    )
