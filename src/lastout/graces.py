"""Every wait of this library, in one table, in seconds.

A stop can take `Graces.max_stop` at most; whoever waits for a supervisor waits that long plus
`MARGIN`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

__all__ = [
    "DEFAULT",
    "FORCED_STEP",
    "HEARD",
    "MARGIN",
    "MAXIMA",
    "PAUSE",
    "PRESETS",
    "Graces",
    "resolve",
]

MARGIN: Final = 0.5
"""What every caller that waits adds to the bound of a run, before it takes the forced step."""

HEARD: Final = 0.25
"""How long a supervisor may take to say that a stop began, before it is resumed (SIGCONT)."""

FORCED_STEP: Final = 3.0
"""The longest that a forced step may take."""

PAUSE: Final = 0.1
"""How long the forced step waits for a paused supervisor to really be in state T (measured: up to
16 ms)."""


@dataclass(frozen=True, slots=True)
class Graces:
    """The waits of one run's ladder, in seconds. Raises ValueError above `MAXIMA` or below 0."""

    stdin: float = 1.0
    """After stdin's end: how long the root may take to end by itself."""
    term: float = 3.0
    """After SIGTERM, before SIGKILL."""
    observe: float = 0.0
    """How long an exited root is held unreaped for an observer; 0 without one."""
    reap: float = 1.5
    """After SIGKILL: how long the kernel may take to finish."""

    def __post_init__(self) -> None:
        for field in fields(self):
            seconds = getattr(self, field.name)
            most = MAXIMA[field.name]
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise ValueError(
                    f"the {field.name} grace must be a number of seconds, not {seconds!r}"
                )
            if not 0 <= seconds <= most:  # true of nothing for a NaN
                raise ValueError(
                    f"the {field.name} grace must be between 0 and {most:g} s, not {seconds:g}"
                )

    @property
    def max_stop(self) -> float:
        """The longest that a stop can take, in seconds, to the millisecond."""
        return round(self.stdin + self.term + self.observe + self.reap, 3)


MAXIMA: Final[dict[str, float]] = {"stdin": 10.0, "term": 30.0, "observe": 2.0, "reap": 5.0}
"""The longest grace that a run may ask for, by the field's name, in seconds."""

DEFAULT: Final = Graces()

# Each preset ends inside the patience of the host it is named after (what the host waits between
# its own polite step and its SIGKILL), so that the stop is over before that host stops waiting.
PRESETS: Final[dict[str, Graces]] = {
    "default": DEFAULT,
    "mcp": Graces(stdin=1.0, term=2.0, reap=0.5),
    "acp": Graces(stdin=1.0, term=2.0, reap=0.5),
    "codex-sdk": Graces(stdin=0.3, term=1.2, reap=0.3),
    "jupyter": Graces(stdin=1.0, term=1.8, reap=0.4),
    "claude-sdk": Graces(stdin=1.0, term=3.0, reap=0.5),
    "trio": Graces(stdin=1.0, term=3.0, reap=0.5),
    "instant": Graces(stdin=0.0, term=0.0, reap=1.5),
}
"""The graces by the name that `--budget` takes."""


def resolve(graces: Graces | str | None) -> Graces:
    """The graces that are meant: None is the default, a string a preset. Raises ValueError for an
    unknown name."""
    if graces is None:
        return DEFAULT
    if isinstance(graces, Graces):
        return graces
    try:
        return PRESETS[graces]
    except (KeyError, TypeError):
        raise ValueError(f"no preset is named {graces!r}; there are {', '.join(PRESETS)}") from None
