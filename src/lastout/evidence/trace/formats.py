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
    signed: bool
    kind: str  # "int", "text", or "far" for text whose place stands in the field


@dataclass(frozen=True, slots=True)
class Format:
    """One event's id and fields."""

    id: int
    name: str
    fields: tuple[_Field, ...]

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
        fields.append(
            _Field(
                match["name"],
                int(match["offset"]),
                int(match["size"]),
                match["signed"] == "1",
                what,
            )
        )
    return Format(int(found[1]), name, tuple(fields))


def _value(one: _Field, data: bytes) -> Any:
    raw = data[one.offset : one.offset + one.size]
    if one.kind == "text":
        return _text(raw)
    if one.kind == "far":
        (place,) = struct.unpack("=I", raw)
        return _text(data[place & 0xFFFF : (place & 0xFFFF) + (place >> 16)])
    code = _CODES[one.size]
    return struct.unpack("=" + (code if one.signed else code.upper()), raw)[0]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
