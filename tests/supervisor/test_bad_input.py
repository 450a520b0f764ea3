"""Bad input: one clear line, the status of the table, and nothing started."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from harness import Scene, supervisor_binary
from harness.fuse import fuse

REFUSED = {
    "unknown option": (["--no-such-option"], "--no-such-option"),
    "unknown option with a value": (["--no-such-option=1"], "--no-such-option"),
    "stdin grace above its maximum": (["--stdin-grace", "10.5"], "10"),
    "term grace above its maximum": (["--term-grace", "30.5"], "30"),
    "reap bound above its maximum": (["--reap-bound", "5.5"], "5"),
    "negative grace": (["--term-grace", "-1"], "--term-grace"),
    "no number": (["--term-grace", "soon"], "soon"),
    "infinite": (["--term-grace", "inf"], "inf"),
    "not a number": (["--timeout", "nan"], "nan"),
    "empty value": (["--term-grace", ""], "--term-grace"),
    "hexadecimal": (["--term-grace", "0x1"], "0x1"),
    "unknown budget": (["--budget", "generous"], "generous"),
    "owner without a start": (["--owner", "123"], "--owner"),
    "owner that is no pid": (["--owner", "me:1"], "--owner"),
    "owner pid out of range": (["--owner", "99999999999999999999:1"], "--owner"),
    "forward TERM": (["--forward", "TERM"], "TERM"),
    "forward KILL": (["--forward", "USR1,KILL"], "KILL"),
    "forward STOP": (["--forward", "STOP"], "STOP"),
    "forward nonsense": (["--forward", "NOISE"], "NOISE"),
    "forward nothing": (["--forward", ""], "--forward"),
    "stdin end": (["--stdin-end", "maybe"], "maybe"),
    "leftovers": (["--leftovers", "keep"], "keep"),
    "lock without epoch": (["--lock", "/tmp/x"], "--epoch"),
    "epoch without lock": (["--epoch", "3"], "--lock"),
    "epoch below zero": (["--lock", "/tmp/x", "--epoch", "-3"], "--epoch"),
    "run id with a slash": (["--run", "../x"], "--run"),
    "run id too long": (["--run", "x" * 65], "--run"),
    "empty run id": (["--run", ""], "--run"),
    "control descriptor not open": (["--control", "199"], "199"),
    "kept descriptor not open": (["--close-fds", "--keep-fd", "198"], "198"),
    "rlimit form": (["--rlimit", "CORE"], "CORE"),
    "rlimit name": (["--rlimit", "HAPPINESS=1:1"], "HAPPINESS"),
    "umask": (["--umask", "9"], "9"),
    "umask too large": (["--umask", "7777"], "7777"),
    "uid": (["--uid", "root"], "root"),
    "groups": (["--groups", "1,x"], "x"),
    "mask": (["--mask", "first"], "first"),
    "mask of nothing": (["--mask", "99"], "--mask 99: the command has arguments 0 to "),
    "record in no directory": (["--record", "/nowhere/at/all.jsonl"], "/nowhere/at/all.jsonl"),
    "record is a directory": (["--record", "/tmp"], "/tmp"),
    "record is a device": (["--record", "/dev/null/x"], "/dev/null/x"),
    "chdir": (["--chdir", "/nowhere/at/all"], "cannot enter '/nowhere/at/all'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_one_line_and_nothing_started(scene: Scene, case: str) -> None:
    options, word = REFUSED[case]
    run = scene.run("root", *options, graces=None, record=False)
    run.ends(code=125)
    text = run.error_text()
    assert len(text.splitlines()) == 1
    assert word in text
    assert text.startswith("lastout-supervisor: ")
    assert not scene.all("root")


@pytest.mark.parametrize("words", [[], ["--"], ["--record"], ["--owner"], ["--", ""]], ids=str)
def test_a_missing_command_or_value(words: list[str]) -> None:
    done = subprocess.run(
        [supervisor_binary(), *words], capture_output=True, timeout=30, check=False, text=True
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1


def test_help_and_version(scene: Scene) -> None:
    for option in ("--help", "--version"):
        run = scene.run("root", option)
        run.ends(code=0)
        assert run.output_text().strip()
        assert not scene.all("root")


def test_every_option_of_the_help_is_in_the_reference(scene: Scene) -> None:
    run = scene.run("root", "--help")
    run.ends(code=0)
    reference = Path(__file__).parents[2] / "docs" / "reference" / "supervisor.md"
    known = set(re.findall(r"--[a-z][a-z0-9-]+", reference.read_text())) - {"--name"}
    assert set(re.findall(r"--[a-z][a-z0-9-]+", run.output_text())) <= known
    assert {option for option in known if option not in run.output_text()} == set()


def test_a_control_descriptor_that_is_no_socket(scene: Scene, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        run = scene.run("root", "--control", str(file.fileno()), fds=[file.fileno()])
        run.ends(code=125)
    assert not scene.all("root")


def test_a_control_descriptor_of_the_wrong_kind(scene: Scene) -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with mine, theirs:
        run = scene.run("root", "--control", str(theirs.fileno()), fds=[theirs.fileno()])
        run.ends(code=125)
    assert not scene.all("root")


def test_a_record_that_cannot_be_written_starts_nothing(scene: Scene, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    run = scene.run("root", "--record", str(fifo), record=False)
    run.ends(code=125)
    assert not scene.all("root")
    assert str(fifo) in run.error_text()


def test_options_may_be_written_with_an_equals_sign(scene: Scene) -> None:
    run = scene.run("root exit=3", "--term-grace=1.25", "--key=a=b")
    run.ends(code=3)
    assert (run.started["term_grace_ms"], run.started["key"]) == (1250, "a=b")


@pytest.mark.parametrize("what", ["record", "lock"])
def test_on_a_fuse_mount_refused_by_name(scene: Scene, tmp_path: Path, what: str) -> None:
    with fuse(tmp_path) as point:
        epoch = ["--epoch", "1"] if what == "lock" else []
        run = scene.run("root", f"--{what}", str(point / "file"), *epoch, record=False)
        assert run.wait().code == 125
        assert f"{what} {point}/file: on a FUSE file system" in run.error_text()
        assert not scene.all("root")
