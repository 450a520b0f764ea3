"""What secrets look like, for evidence/mask."""

from __future__ import annotations

import re

# The last word of an option's, a variable's or a header's name that makes its value a secret.
_WORD = (
    r"(?:api[-_]?key|access[-_]?key(?:[-_]?id)?|secret(?:[-_]?access)?(?:[-_]?key)?|private[-_]?key"
    r"|pass(?:word|wd|phrase|code)?|pwd|token|bearer|credentials?|auth(?:orization|[-_]?key)?"
    r"|client[-_]?secret|session[-_]?key|signing[-_]?key|encryption[-_]?key|connection[-_]?string|dsn|cookie)"
)
OPTION = re.compile(rf"^--?(?:[A-Za-z0-9.]+[-_.])*{_WORD}$", re.IGNORECASE)
OPTION_VALUE = re.compile(rf"^--?(?:[A-Za-z0-9.]+[-_.])*{_WORD}=.", re.IGNORECASE)
ASSIGNMENT = re.compile(rf"^(?:[A-Za-z0-9]+_)*{_WORD}=.", re.IGNORECASE)
NAME = re.compile(rf"(?:^|[-_.]){_WORD}$", re.IGNORECASE)
HEADER = re.compile(
    r"\b(authorization|proxy-authorization|cookie|x-api-key|x-auth-token|api-key)\s*:\s*\S",
    re.IGNORECASE,
)
# Secrets wherever they stand. Each has a fixed start, so that ordinary words do not match.
SHAPES = re.compile(
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
USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)([^/\s@]+)(@)", re.IGNORECASE)
TEXT_HEADER = re.compile(
    r"(\b(?:authorization|proxy-authorization|cookie|x-api-key|x-auth-token|api-key)\s*:\s*)"
    r"((?:bearer|basic|token)\s+)?([^\s'\"]+)",
    re.IGNORECASE,
)
TEXT_VALUE = re.compile(
    rf"((?:^|(?<=[\s'\"(;&|,{{]))(?:--?)?(?:[A-Za-z0-9.]+[-_.])*{_WORD}['\"]?(?:=|\s*:\s*))"
    r"(\"[^\"]*\"|'[^']*'|[^\s'\"&;,)}]+)",
    re.IGNORECASE,
)
TEXT_OPTION = re.compile(
    rf"((?:^|(?<=\s))--(?:[A-Za-z0-9.]+[-_.])*{_WORD}\s+)(\"[^\"]*\"|'[^']*'|[^\s'\"-][^\s'\"]*)",
    re.IGNORECASE,
)
