"""`lastout why`, `log`, `show` and `index`, as a person and as a program use them."""

from __future__ import annotations

import getpass
import json
import os
import select
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lastout.cli.main import group

from .live import PYTHON
from .records import Record
from .test_index import DAY, ended, put

LEFT = f"{DAY}T100000-aaaaaa"
OPEN = f"{DAY}T100001-bbbbbb"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    put(made, LEFT, Record().started(key="thread-7").exited(137).gone(), age_s=100)
    put(made, OPEN, Record().started(argv=["claude", "-p"], boot_id="another").killed(), age_s=50)
    return made


def call(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(group(), [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_why_answers_first_and_grades_everything(state: Path) -> None:
    output = call("why", LEFT, "--state", state).output
    assert output.splitlines()[0] == LEFT
    assert "The root exited with code 137." in output
    assert "observed" in output
    assert "not reported" in output
    assert "keeper:2" not in output


def test_why_verbose_has_the_numbers_and_the_lines(state: Path) -> None:
    output = call("why", LEFT, "--state", state, "--verbose").output
    assert "from keeper:2" in output
    assert "status: 35072" in output


def test_why_for_programs(state: Path) -> None:
    document = json.loads(call("why", LEFT, "--state", state, "--json").output)
    assert document["run"] == LEFT
    end = next(claim for claim in document["claims"] if claim["kind"] == "root-exited")
    assert (end["grade"], end["events"], end["at_s"]) == ("observed", ["keeper:2"], 1.0)
    assert end["facts"]["code"] == 137


def test_why_says_what_is_alive_now(state: Path) -> None:
    output = call("why", OPEN, "--state", state).output
    assert "has started again since" in output
    here = Record().started(boot_id=_boot(), pidns=os.stat("/proc/self/ns/pid").st_ino)
    for who in ("root", "front", "keeper"):
        here.lines[0][who] = {"pid": os.getpid(), "start": _start(), "inode": 0}
    put(state, f"{DAY}T100003-dddddd", here)
    assert "are alive" in call("why", f"{DAY}T100003", "--state", state).output


def test_why_of_nothing_is_one_line(state: Path) -> None:
    result = call("why", "nope", "--state", state, code=1)
    assert result.output.startswith("Error: there is no run 'nope'")
    assert len(result.output.splitlines()) == 1


def test_log_lists_the_newest_last(state: Path) -> None:
    lines = call("log", "--state", state).output.splitlines()
    assert [line.split()[2] for line in lines] == [LEFT, OPEN]
    assert "exit 137" in lines[0]
    assert "[thread-7]" in lines[0]
    assert "SIGKILL" in lines[1]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--key", "thread-7"], [LEFT]),
        (["--command", "claude"], [OPEN]),
        (["--only", "open"], [OPEN]),
        (["--verdict", "exited"], []),
        (["--since", "2026-11-30T11:00+00:00"], [LEFT, OPEN]),
        (["--until", "2026-11-30T11:00+00:00"], []),
        (["-n", "1"], [OPEN]),
    ],
)
def test_log_filters(state: Path, options: list[str], runs: list[str]) -> None:
    output = call("log", "--state", state, "--json", *options).output
    found = [json.loads(line)["run"] for line in output.splitlines()]
    assert sorted(found) == sorted(runs) if len(runs) > 1 else found == runs


def test_log_says_what_is_known_of_a_run_without_a_last_word(tmp_path: Path) -> None:
    state = tmp_path / "another"
    state.mkdir(mode=0o700)
    forced = Record().started().add("forced", verdict="killed", detail={"how": "forced"})
    told = Record().started().add("forced", verdict="", detail={"how": "now"})
    closed = Record().started().add("forced", verdict="unproven", detail={})
    closed.add("closed", verdict="killed", evidence={})
    for number, record in enumerate((forced, told, closed)):
        put(state, f"{DAY}T12000{number}-aaaaaa", record)
    lines = call("log", "--state", state).output.splitlines()
    assert [line.split()[3] for line in lines] == ["killed", "open", "killed"]


def test_log_explains_a_wrong_time(state: Path) -> None:
    assert "2h (ago)" in call("log", "--state", state, "--since", "noon", code=1).output


def test_log_follow_tells_begin_and_end(tmp_path: Path) -> None:
    state = tmp_path / "state"

    def start(name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", name, "--", "sh",
             "-c", "read line"],
            stdin=subprocess.PIPE,
        )  # fmt: skip

    first = start("first")
    follower = subprocess.Popen(
        [PYTHON, "-u", "-m", "lastout", "log", "--follow", "--json", "--state", str(state)],
        stdout=subprocess.PIPE,
    )
    assert follower.stdout is not None
    lines = follower.stdout

    def told() -> tuple[str, str]:
        ready, _, _ = select.select([lines], [], [], 20)
        assert ready, "it tells nothing more"
        row = json.loads(lines.readline())
        return row["run"], row["state"]

    try:
        assert told() == ("first", "open")
        second = start("second")
        assert told() == ("second", "open")
        # By now it waits: the ends of both can only come as news of their own directories.
        for name, front in (("first", first), ("second", second)):
            assert front.stdin is not None
            front.stdin.close()
            front.wait(20)
            assert told() == (name, "ended")
    finally:
        follower.kill()
        follower.wait()
        lines.close()


def test_show_has_every_line(state: Path) -> None:
    lines = call("show", LEFT, "--state", state).output.splitlines()
    assert [line.split()[2] for line in lines] == ["started", "root-exited", "tree-gone"]
    assert lines[1].split()[0] == "+1.000000"
    raw = call("show", LEFT, "--state", state, "--json").output.splitlines()
    assert json.loads(raw[1])["code"] == 137


def test_why_says_who_asked_for_the_stop_and_why(tmp_path: Path) -> None:
    state = tmp_path / "state"
    argv = [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", "job", "--"]
    with subprocess.Popen([*argv, "sh", "-c", "echo up; exec cat"], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        stop = [PYTHON, "-m", "lastout", "stop", "job", "--state", str(state)]
        subprocess.run([*stop, "--reason", "wrong \x1b branch"], check=True)
    told = " ".join(call("why", "job", "--state", state).output.split())
    who = getpass.getuser()
    assert f"`{who}` asked for a stop, with the reason `wrong \\x1b branch`." in told


@pytest.mark.parametrize(
    "words",
    ["ps", "why last", "show last", "logs last", "stop k", "lease list", "job list"],
)
def test_who_reads_does_not_make_the_state_directory(tmp_path: Path, words: str) -> None:
    typo = tmp_path / "typo"
    done = call(*words.split(), "--state", typo, code=2)
    assert f"Directory '{typo}' does not exist" in done.output
    assert not typo.exists()


def test_show_has_what_is_zero(tmp_path: Path) -> None:
    state = tmp_path / "state"
    run = [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", "job", "--", "true"]
    subprocess.run(run, check=True)
    lines = call("show", "job", "--state", state).output.splitlines()
    assert lines[1].endswith(" status=0 code=0 core=false")


def test_show_follow_ends_with_the_run(tmp_path: Path) -> None:
    state = tmp_path / "state"
    front = subprocess.Popen(
        [PYTHON, "-m", "lastout", "run", "--state", str(state), "--run", "job", "--", "sh", "-c",
         "echo up; read line"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert front.stdin is not None
    assert front.stdout is not None
    assert front.stdout.readline() == b"up\n"
    shown = subprocess.Popen(
        [PYTHON, "-u", "-m", "lastout", "show", "job", "--follow", "--state", str(state)],
        stdout=subprocess.PIPE,
    )
    assert shown.stdout is not None
    assert b"started" in shown.stdout.readline()
    front.stdin.close()
    front.wait(20)
    front.stdout.close()
    rest = shown.communicate(timeout=20)[0].decode()
    assert rest.splitlines()[-1].split()[2] == "tree-gone"


def test_pictures(state: Path, tmp_path: Path) -> None:
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    call("show", LEFT, "--state", state, "--svg", svg, "--html", html)
    ET.parse(svg)
    assert "exit 137" in svg.read_text()
    assert "<table>" in html.read_text()
    assert "keeper" in call("show", LEFT, "--state", state, "--timeline").output


def test_index_rebuild_and_prune(state: Path) -> None:
    assert call("index", "rebuild", "--state", state).output.startswith("2 records")
    would = call("index", "prune", "--keep", "0", "--dry-run", "--json", "--state", state).output
    document = json.loads(would)
    # The one of another boot cannot be alive; without an end it may go too.
    assert sorted(document["removed"]) == [LEFT, OPEN]
    call("index", "hold", LEFT, "--state", state)
    output = call("index", "prune", "--keep", "0", "--state", state).output
    assert output.startswith("1 records removed")
    assert f"{LEFT} stays: held" in output
    call("index", "release", LEFT, "--state", state)
    call("index", "release", LEFT, "--state", state, code=1)
    call("index", "prune", "--keep", "0", "--state", state)
    assert not (state / "runs" / DAY).exists() or not list((state / "runs" / DAY).glob("*.jsonl"))


def test_prune_needs_to_be_told_what_is_too_much(state: Path) -> None:
    assert "--older-than" in call("index", "prune", "--state", state, code=2).output


def test_the_schema_is_printed() -> None:
    assert json.loads(call("index", "schema").output)["title"].startswith("One line")


def test_many_runs_do_not_make_why_slow(tmp_path: Path) -> None:
    """Looking one up must not read the others: they may be unreadable."""
    state = tmp_path / "state"
    put(state, LEFT, ended())
    directory = state / "runs" / DAY
    for number in range(50):
        (directory / f"{DAY}T11{number:04}-xxxxxx.jsonl").mkdir()
    assert "code 0" in call("why", LEFT, "--state", state).output


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
