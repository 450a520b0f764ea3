"""Where the fields of an event are, from its own `format` file: they differ between kernels."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

__all__ = ["Format", "parse_format"]

_ID = re.compile(r"^ID:\s*(\d+)\s*$", re.MULTILINE)
_FIELD = re.compile(
    r"^\s*field:(?P<type>[^;]*?)(?P<name>\w+)(?P<array>\[\d*\])?;\s*offset:(?P<offset>\d+);"
    r"\s*size:(?P<size>\d+);\s*signed:(?P<signed>[01]);",
    re.MULTILINE,
)
_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    offset: int
    size: int
    kind: str  # "int", "text", or "far" for text whose place stands in the field
    unpack: struct.Struct


@dataclass(frozen=True, slots=True)
class Format:
    """One event's id and fields."""

    id: int
    name: str
    fields: tuple[_Field, ...]

    def offset(self, name: str) -> int:
        """Where a field begins. Raises KeyError."""
        return {one.name: one.offset for one in self.fields}[name]

    def read(self, data: bytes) -> dict[str, Any]:
        """The fields of a record; text up to its first zero byte."""
        return {one.name: _value(one, data) for one in self.fields}


def parse_format(text: str, name: str) -> Format:
    """A `format` file. Raises ValueError when it is none."""
    found = _ID.search(text)
    if found is None:
        raise ValueError(f"the format of {name} has no ID")
    fields = []
    for match in _FIELD.finditer(text):
        kind = match["type"]
        if "__data_loc" in kind:
            what = "far"
        elif "char" in kind and match["array"]:
            what = "text"
        else:
            what = "int"
        size = int(match["size"])
        code = "I" if what == "far" else _CODES.get(size, f"{size}s")
        if what == "int" and match["signed"] == "0":
            code = code.upper() if size in _CODES else code
        unpack = struct.Struct("=" + (f"{size}s" if what == "text" else code))
        fields.append(_Field(match["name"], int(match["offset"]), size, what, unpack))
    return Format(int(found[1]), name, tuple(fields))


def _value(one: _Field, data: bytes) -> Any:
    (value,) = one.unpack.unpack_from(data, one.offset)
    if one.kind == "int":
        return value
    if one.kind == "text":
        return _text(value)
    return _text(data[value & 0xFFFF : (value & 0xFFFF) + (value >> 16)])


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
