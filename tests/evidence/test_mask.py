"""Secrets stay out of records."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastout.evidence import mask, maskpatterns
from lastout.evidence.mask import MASK, env_names, looks_secret, mask_indices, mask_text, masked

KEY = "sk-" + "a1B2" * 6
PARTS = [
    *mask._HINTS, *(hint.upper() for hint in mask._HINTS), "api", "client", "private", "access",
    "AKIA" + "A" * 16, "AIza" + "a" * 35, "-----BEGIN RSA PRIVATE KEY-----", "eyJ" + "a" * 9,
    "ghp_" + "a" * 24, "rk_live_" + "a" * 18, "--", "-", "=", ":", " ", "_", "@", "/", "a", "B",
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "indices"),
    [
        (["codex", "exec", "--api-key", "abc", "x"], (3,)),
        (["x", "--token=abc"], (1,)),
        (["x", "--client-secret", "abc"], (2,)),
        (["env", "OPENAI_API_KEY=abc", "codex"], (1,)),
        (["curl", "-H", "Authorization: Bearer abc", "https://u:p@h/"], (2, 3)),
        (["curl", "-u", "me:pw", "https://h/"], (2,)),
        (["mysql", "-psecret"], (1,)),
        (["sh", "-c", "export A_TOKEN=abc; run"], (2,)),
        ([KEY], (0,)),
        (["x", "--max-tokens", "5"], ()),
        (["x", "--token-file", "/run/t"], ()),
        (["x", "--password-stdin"], ()),
        (["x", "--author=me", "--compass=n", "--bypass"], ()),
        (["x", "--auth", "--verbose"], ()),
        (["ssh", "-p", "22", "host"], ()),
        (["claude", "-p", "explain how tokens are counted"], ()),
        ([], ()),
    ],
)
def test_arguments_that_look_like_secrets(argv: list[str], indices: tuple[int, ...]) -> None:
    assert mask_indices(argv) == indices


def test_secrets_that_the_caller_knows() -> None:
    assert mask_indices(["x", "--name", "hunter2!", "pre-hunter2!"], also=["hunter2!", ""]) == (
        2,
        3,
    )


def test_of_name_and_value_only_the_value_is_hidden() -> None:
    argv = ["x", "--token=abc", "abc"]
    assert masked(argv, (1, 2)) == ("x", "--token=" + MASK, MASK)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("curl https://u:pw@host/x", "curl https://u:***@host/x"),
        ("export FOO_TOKEN=abc; ls", "export FOO_TOKEN=***; ls"),
        (f"found {KEY} here", "found *** here"),
        ("run --api-key abc --verbose", "run --api-key *** --verbose"),
        ('{"password": "x y", "a": 1}', '{"password": ***, "a": 1}'),
        ("the password is long, the tokens: 5", "the password is long, the tokens: 5"),
        ("author=me bypass=1 monkey=2", "author=me bypass=1 monkey=2"),
    ],
)
def test_texts(text: str, kept: str) -> None:
    assert mask_text(text) == kept


@given(st.lists(st.sampled_from(PARTS), max_size=5).map("".join))
def test_no_pattern_matches_what_gives_no_hint(text: str) -> None:
    """The quick look that spares `lastout run` the patterns must not overlook anything."""
    if not any(hint in text.lower() for hint in mask._HINTS):
        for name, pattern in vars(maskpatterns).items():
            if name.isupper() and isinstance(pattern, re.Pattern):
                assert not pattern.search(text), (name, text)


def test_a_plain_command_line_loads_no_patterns() -> None:
    code = (
        "import sys; from lastout.evidence.mask import mask_indices as m;"
        "assert m(['codex', 'app-server', '--listen', 'stdio://x'[:5]]) == ();"
        "assert m(['sh', '-c', 'make -j2 && echo done']) == ();"
        "assert 'lastout.evidence.maskpatterns' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_header_is_hidden() -> None:
    assert "abc.def" not in mask_text("curl -H 'Authorization: Bearer abc.def' x")


def test_of_the_environment_only_names() -> None:
    assert env_names({"B": "secret", "A": "1"}) == ("A", "B")


def test_names_of_secrets() -> None:
    assert looks_secret("GITHUB_TOKEN")
    assert not looks_secret("TOKEN_FILE")
    assert not looks_secret("PATH")


@given(st.lists(st.text(max_size=30), max_size=8))
def test_masking_keeps_the_number_of_arguments(argv: list[str]) -> None:
    indices = mask_indices(argv)
    hidden = masked(argv, indices)
    assert len(hidden) == len(argv)
    pairs = enumerate(zip(argv, hidden, strict=True))
    assert all(old == new for i, (old, new) in pairs if i not in indices)


@given(st.text(max_size=200))
def test_masking_twice_hides_nothing_more(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


@given(st.text(alphabet="abcdefghij0123456789", min_size=8, max_size=40))
def test_no_value_of_a_secret_option_survives(secret: str) -> None:
    for argv in (
        ["x", "--api-key", secret],
        ["x", f"--password={secret}"],
        ["x", f"A_TOKEN={secret}"],
    ):
        assert secret not in " ".join(masked(argv, mask_indices(argv)))
    assert secret not in mask_text(f"run --token {secret} --secret={secret}")
