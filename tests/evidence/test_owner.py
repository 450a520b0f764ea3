"""What only the owner knows, in the record."""

from __future__ import annotations

from pathlib import Path

from lastout.evidence import journal, owner
from lastout.evidence.why import story
from lastout.evidence.words import sentence


def test_of_the_environment_names_and_of_secrets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    owner.prepared(
        path,
        "r",
        ["codex", "--api-key", "hunter2", "--name=joe"],
        env={"OPENAI_API_KEY": "hunter3", "PATH": "/bin"},
        labels={"thread": "7", "token": "hunter4", "url": "https://me:hunter5@host/", "n": 3},
        also=["joe"],
    )
    text = path.read_text()
    for secret in ("hunter", "joe", "/bin"):
        assert secret not in text
    (event,) = journal.read(path).events
    assert event.env_names == ("OPENAI_API_KEY", "PATH")  # type: ignore[attr-defined]
    assert event.labels["thread"] == "7"  # type: ignore[attr-defined]
    assert event.labels["n"] == 3  # type: ignore[attr-defined]
    assert (path.stat().st_mode & 0o777) == 0o600


def test_a_note_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    owner.note(path, "r", "the user pressed stop", after_s=3)
    claim = next(one for one in story(journal.read(path)).claims if one.kind == "note")
    assert sentence(claim.kind, claim.facts) == "The owner noted: the user pressed stop"
    assert claim.grade == "reported"
