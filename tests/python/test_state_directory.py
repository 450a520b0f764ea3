"""One state directory a user, whatever the environment says."""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path

import pytest

from lastout.state import new_run, record_path, state_dir, valid_run


def test_it_does_not_follow_home_or_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    home = tmp_path / "home"
    entry = pwd.struct_passwd(("u", "x", os.getuid(), os.getgid(), "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    assert state_dir() == home / ".local" / "state" / "lastout"


def test_it_is_made_for_its_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = state_dir(tmp_path / "a" / "state")
    finally:
        os.umask(old)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_it_is_absolute_whatever_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_dir("here") == tmp_path / "here"


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        state_dir(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Who owns it can replace the locks in it."""
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, 65534, 65534)
    with pytest.raises(PermissionError, match="65534"):
        state_dir(other)


def test_a_user_without_an_entry_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(FileNotFoundError, match="--state DIR"):
        state_dir()


def test_a_run_id_tells_its_time_and_is_unique() -> None:
    runs = {new_run() for _ in range(500)}
    assert len(runs) == 500
    assert all(re.fullmatch(r"\d{8}T\d{6}-[a-z2-7]{6}", run) and valid_run(run) for run in runs)


@pytest.mark.parametrize("run", ["", ".", "..", "a/b", "a b", "x" * 65, "ü", "a\n"])
def test_what_is_no_run_id_makes_no_path(run: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run id"):
        record_path(run, tmp_path / "state")


def test_records_are_kept_by_day(tmp_path: Path) -> None:
    run = "20260102T030405-abcdef"
    path = record_path(run, tmp_path / "state")
    assert path == tmp_path / "state" / "runs" / "20260102" / f"{run}.jsonl"
    assert path.parent.is_dir()
    assert not path.exists()
