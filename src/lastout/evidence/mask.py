"""Secrets stay out of records: which arguments to mask, and what a text is worth keeping of.

A record says what was run; it need not say with which key. Arguments that look like secrets are
named by their index for the supervisor's `--mask N`; texts that agents report are masked here; of
the environment only names are ever recorded. Patterns err towards masking: a masked word can be
asked for, a leaked key cannot be taken back. What no pattern knows must be named by the caller.

`lastout run` comes through here before its exec, so the patterns are loaded only for a command line
that holds a hint of a secret.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["MASK", "env_names", "looks_secret", "mask_indices", "mask_text", "masked"]

MASK = "***"
_PASSWORD_OPTIONS = {"sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "mariadb": "-p"}
_USER_OPTIONS = {"curl": ("-u", "--user", "-U", "--proxy-user")}

# Without one of these (in lower case) no pattern can match; a test holds the two together.
_HINTS = (
    "key", "secret", "pass", "pwd", "token", "bearer", "credential", "auth", "connection", "dsn",
    "cookie", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_", "glpat-", "xox", "akia",
    "asia", "aiza", "hf_", "npm_", "pypi-", "k_live", "k_test", "eyj", "://",
)  # fmt: skip


def mask_indices(argv: Sequence[str], also: Iterable[str] = ()) -> tuple[int, ...]:
    """The indices of arguments that look like secrets, for `--mask N` (0 is the command itself).

    `also` are the secrets that the caller knows: every argument that contains one is masked too.
    """
    known = tuple(secret for secret in also if secret)
    program = argv[0].rsplit("/", 1)[-1] if argv else ""
    if not known and program not in _PASSWORD_OPTIONS and program not in _USER_OPTIONS:
        text = "\0".join(argv).lower()
        if not any(hint in text for hint in _HINTS):
            return ()
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
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    from lastout.evidence import maskpatterns as patterns

    text = patterns.SHAPES.sub(MASK, text)
    text = patterns.USERINFO.sub(rf"\g<1>{MASK}\g<3>", text)
    text = patterns.TEXT_HEADER.sub(lambda found: found[1] + (found[2] or "") + MASK, text)
    text = patterns.TEXT_VALUE.sub(lambda found: found[1] + MASK, text)
    return patterns.TEXT_OPTION.sub(lambda found: found[1] + MASK, text)


def env_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The environment as a record may have it: sorted names, no values."""
    return tuple(sorted(environment))


def looks_secret(name: str) -> bool:
    """Whether a name (of a label, a variable, an option) says that its value is a secret."""
    from lastout.evidence import maskpatterns as patterns

    return bool(patterns.NAME.search(name))


def _is_value_of(program: str, option: str, argument: str) -> bool:
    from lastout.evidence import maskpatterns as patterns

    return bool(
        (patterns.OPTION.match(option) and not argument.startswith("--"))
        or (option in _USER_OPTIONS.get(program, ()) and ":" in argument)
        or (option == "-p" and program == "sshpass")
        or (argument.startswith(_PASSWORD_OPTIONS.get(program, "\0")) and len(argument) > 2)
    )


def _is_secret(argument: str) -> bool:
    from lastout.evidence import maskpatterns as patterns

    return bool(
        patterns.OPTION_VALUE.match(argument)
        or patterns.ASSIGNMENT.match(argument)
        or patterns.HEADER.search(argument)
        or patterns.SHAPES.search(argument)
        or patterns.USERINFO.search(argument)
        or (" " in argument and mask_text(argument) != argument)
    )


def _hide(word: str) -> str:
    if word.startswith("-") and "=" in word:
        return word.partition("=")[0] + "=" + MASK
    return MASK
