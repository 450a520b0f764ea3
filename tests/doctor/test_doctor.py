"""`lastout doctor`: what it finds, and that it says so when a machine lacks something."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lastout.doctor import kernel, limits, report, state_directory, surroundings, tiers
from lastout.doctor.finding import Finding

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lastout", "doctor", *words]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60)


def by_subject(findings: list[Finding], subject: str) -> Finding:
    return next(one for one in findings if one.subject == subject)


def test_the_whole_report(tmp_path: Path) -> None:
    done = doctor("--json", "--state", str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["sound"] is True
    assert told["guarantee"].count(".") <= 2
    assert told["guarantee"].endswith(".")
    assert [tier["name"] for tier in told["tiers"]] == ["subreaper", "cgroup", "pidns"]
    assert told["tiers"][0]["available"]
    for tier in told["tiers"]:
        assert tier["available"] or tier["why_not"]
        assert tier["guarantee"]
        assert any("other services" in gap for gap in tier["not_covered"])
    assert set(told["findings"]) == {"kernel", "records and locks", "surroundings", "limits"}


def test_for_people_it_ends_with_the_guarantee(tmp_path: Path) -> None:
    done = doctor("--verbose", "--state", str(tmp_path / "state"))
    text = " ".join(done.stdout.split())
    assert tiers.TIERS[0].guarantee in text
    assert "It does not cover" in text
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_tier_that_holds_nobody_is_not_available() -> None:
    nothing = dataclasses.replace(tiers.TIERS[0], name="no-such-tier")
    trial = tiers.attempt(nothing)
    assert not trial.available
    assert trial.why


def test_a_trial_that_was_not_proven_is_no_guarantee(tmp_path: Path) -> None:
    found = report.Report(trials=[tiers.Trial(tiers.TIERS[0], False, "why not")])
    assert not found.sound
    assert found.guarantee.startswith("Nothing is guaranteed")
    assert found.not_covered == []


def test_a_state_directory_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    found = list(state_directory.check(str(path)))
    assert by_subject(found, "its mode").grade == "weak"
    taken = tmp_path / "file"
    taken.write_text("")
    assert [one.grade for one in state_directory.check(str(taken))] == ["bad"]
    done = doctor("--state", str(taken))
    assert done.returncode == 1
    assert "x state directory" in done.stdout


def test_a_small_limit_of_open_files_is_a_note() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        found = by_subject(list(limits.check()), "open files")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.grade == "note"
    assert "51 runs" in found.meaning
    assert "ulimit -n" in found.remedy


def test_a_shell_in_between_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "from lastout.doctor import surroundings as s; "
        "print(next(o.found for o in s.check() if o.subject == 'parents'))"
    )
    words = ["sh", "-c", '"$0" -c "$1"; exit', sys.executable, program]
    done = subprocess.run(words, env=ENV, capture_output=True, text=True)
    assert done.stdout.startswith("sh ("), done.stderr
    assert f"({os.getpid()})" in done.stdout


def test_what_the_kernel_lacks_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.pidfs, "inode", lambda fd: 0)
    found = by_subject(list(kernel.check()), "process identity")
    assert found.grade == "note"
    assert "6.9" in found.remedy

    def refused(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert by_subject(list(kernel.check()), "pidfd").grade == "bad"


def test_nothing_of_the_surroundings_is_bad_here() -> None:
    assert all(one.grade in ("good", "note") for one in surroundings.check())
