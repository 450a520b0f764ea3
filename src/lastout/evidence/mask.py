"""Secrets stay out of records: which arguments to mask, and what a text is worth keeping of.

A record says what was run; it need not say with which key. Arguments that look like secrets are
named by their index for the supervisor's `--mask N`; texts that agents report are masked here; of
the environment only names are ever recorded. Patterns err towards masking: a masked word can be
asked for, a leaked key cannot be taken back. What no pattern knows must be named by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["MASK", "env_names", "looks_secret", "mask_indices", "mask_text", "masked"]

MASK = "***"

# The last word of an option's, a variable's or a header's name that makes its value a secret.
_WORD = (
    r"(?:api[-_]?key|access[-_]?key(?:[-_]?id)?|secret(?:[-_]?access)?(?:[-_]?key)?|private[-_]?key"
    r"|pass(?:word|wd|phrase|code)?|pwd|token|bearer|credentials?|auth(?:orization|[-_]?key)?"
    r"|client[-_]?secret|session[-_]?key|signing[-_]?key|encryption[-_]?key|connection[-_]?string|dsn|cookie)"
)
_OPTION = re.compile(rf"^--?(?:[A-Za-z0-9.]+[-_.])*{_WORD}$", re.IGNORECASE)
_OPTION_VALUE = re.compile(rf"^--?(?:[A-Za-z0-9.]+[-_.])*{_WORD}=.", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"^(?:[A-Za-z0-9]+_)*{_WORD}=.", re.IGNORECASE)
_NAME = re.compile(rf"(?:^|[-_.]){_WORD}$", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(authorization|proxy-authorization|cookie|x-api-key|x-auth-token|api-key)\s*:\s*\S",
    re.IGNORECASE,
)
_PASSWORD_OPTIONS = {"sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "mariadb": "-p"}
_USER_OPTIONS = {"curl": ("-u", "--user", "-U", "--proxy-user")}
# Secrets wherever they stand. Each has a fixed start, so that ordinary words do not match.
_SHAPES = re.compile(
    r"""
      \bsk-[A-Za-z0-9_-]{16,}                                  # OpenAI, Anthropic
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}                         # Slack
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                            # AWS
    | \bAIza[A-Za-z0-9_-]{30,}                                 # Google
    | \bhf_[A-Za-z0-9]{20,} | \bnpm_[A-Za-z0-9]{30,} | \bpypi-[A-Za-z0-9_-]{30,}
    | \b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}                  # Stripe
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}   # JSON web tokens
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)([^/\s@]+)(@)", re.IGNORECASE)
_TEXT_HEADER = re.compile(
    r"(\b(?:authorization|proxy-authorization|cookie|x-api-key|x-auth-token|api-key)\s*:\s*)"
    r"((?:bearer|basic|token)\s+)?([^\s'\"]+)",
    re.IGNORECASE,
)
_TEXT_VALUE = re.compile(
    rf"((?:^|(?<=[\s'\"(;&|,{{]))(?:--?)?(?:[A-Za-z0-9.]+[-_.])*{_WORD}['\"]?(?:=|\s*:\s*))"
    r"(\"[^\"]*\"|'[^']*'|[^\s'\"&;,)}]+)",
    re.IGNORECASE,
)
_TEXT_OPTION = re.compile(
    rf"((?:^|(?<=\s))--(?:[A-Za-z0-9.]+[-_.])*{_WORD}\s+)(\"[^\"]*\"|'[^']*'|[^\s'\"-][^\s'\"]*)",
    re.IGNORECASE,
)


def mask_indices(argv: Sequence[str], also: Iterable[str] = ()) -> tuple[int, ...]:
    """The indices of arguments that look like secrets, for `--mask N` (0 is the command itself).

    `also` are the secrets that the caller knows: every argument that contains one is masked too.
    """
    known = tuple(secret for secret in also if secret)
    program = argv[0].rsplit("/", 1)[-1] if argv else ""
    found: set[int] = set()
    for index, argument in enumerate(argv):
        if any(secret in argument for secret in known) or _is_secret(argument):
            found.add(index)
        if index == 0:
            continue
        if _is_value_of(program, argv[index - 1] if index > 1 else "", argument):
            found.add(index)
    return tuple(sorted(found))


def masked(argv: Sequence[str], indices: Iterable[int]) -> tuple[str, ...]:
    """The arguments as the supervisor writes them: `***`, and of `--name=value` only the value."""
    chosen = frozenset(indices)
    return tuple(_hide(word) if index in chosen else word for index, word in enumerate(argv))


def mask_text(text: str) -> str:
    """A command line or an output with everything masked that looks like a secret."""
    text = _SHAPES.sub(MASK, text)
    text = _USERINFO.sub(rf"\g<1>{MASK}\g<3>", text)
    text = _TEXT_HEADER.sub(lambda found: found[1] + (found[2] or "") + MASK, text)
    text = _TEXT_VALUE.sub(lambda found: found[1] + MASK, text)
    return _TEXT_OPTION.sub(lambda found: found[1] + MASK, text)


def env_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The environment as a record may have it: sorted names, no values."""
    return tuple(sorted(environment))


def looks_secret(name: str) -> bool:
    """Whether a name (of a label, a variable, an option) says that its value is a secret."""
    return bool(_NAME.search(name))


def _is_value_of(program: str, option: str, argument: str) -> bool:
    return bool(
        (_OPTION.match(option) and not argument.startswith("--"))
        or (option in _USER_OPTIONS.get(program, ()) and ":" in argument)
        or (option == "-p" and program == "sshpass")
        or (argument.startswith(_PASSWORD_OPTIONS.get(program, "\0")) and len(argument) > 2)
    )


def _is_secret(argument: str) -> bool:
    return bool(
        _OPTION_VALUE.match(argument)
        or _ASSIGNMENT.match(argument)
        or _HEADER.search(argument)
        or _SHAPES.search(argument)
        or _USERINFO.search(argument)
        or (" " in argument and mask_text(argument) != argument)
    )


def _hide(word: str) -> str:
    if word.startswith("-") and "=" in word:
        return word.partition("=")[0] + "=" + MASK
    return MASK
