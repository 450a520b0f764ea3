"""Public names whose module is imported when they are first used (PEP 562).

Importing a package then costs next to nothing, and brings in nothing that is not used.
"""

TYPE_CHECKING = False  # typing's own costs more to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, homes: "Mapping[str, str]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a package: `homes` says in which of its modules each name is,
    or in which of another package of ours (`lastout.…`)."""
    import sys
    from importlib import import_module

    def get(name: str) -> "Any":
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home if home.startswith("lastout.") else f"{package}.{home}"
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
