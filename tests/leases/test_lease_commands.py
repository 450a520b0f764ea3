"""The commands about runs and leases, as a shell user has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from typing import Any

import pytest

from harness.programs import command as program_command
from harness.writers import kill
from lastout import identity, sole_writer
from lastout.evidence import journal
from lastout.evidence.events import Forced, Note, Started
from lastout.identity import ProcessIdentity
from lastout.leases import model
from lastout.leases.model import Holder
from lastout.recovery import runs
from lastout.verdict import Verdict

LASTOUT = [sys.executable, "-m", "lastout"]


class Shell:
    """Runs `lastout` with a state directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.state.mkdir(0o700)  # whoever reads does not make it
        self.running: list[subprocess.Popen[bytes]] = []

    def __call__(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [*LASTOUT, *name.split(), "--state", str(self.state), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=self.directory)

    def json(self, name: str, *words: str) -> Any:
        done = self(name, "--json", *words)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def background(self, *words: str) -> subprocess.Popen[bytes]:
        argv = [*LASTOUT, "run", "--state", str(self.state), *words]
        self.running.append(
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
        return self.running[-1]

    def wait_running(self, key: str) -> dict[str, Any]:
        """The run of a key, once it can be seen."""
        while True:
            for run in self.json("ps")["runs"]:
                if run.get("key") == key and run["state"] == "running":
                    return dict(run)
            assert self.running[-1].poll() is None, "the run ended too early"

    def lose(self, run: dict[str, Any]) -> None:
        """Both supervisors die before either can finish the other's work; the root with them."""
        for number in (SIGSTOP, SIGKILL):
            for name in ("front", "keeper"):
                kill(self.identity(run, name), number)
        for name in ("front", "keeper", "root"):
            assert identity.wait_dead(self.identity(run, name), 10) is identity.Alive.NO

    def identity(self, run: dict[str, Any], name: str) -> ProcessIdentity:
        found = identity.from_record(run[name], identity.boot_id(), identity.pidns())
        assert found is not None
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    for process in made.running:
        process.terminate()
        process.wait()
        if process.stderr:
            process.stderr.close()


RUDE = [*program_command("actor"), "root", "ignore", "[", "child", "ignore", "]"]
QUICK = ["--term-grace", "0.1", "--stdin-grace", "0"]


def test_a_second_run_is_refused_with_who_has_the_key(shell: Shell) -> None:
    shell.background("--key", "my talk", *QUICK, "--", "sleep", "60")
    run = shell.wait_running("my talk")
    second = shell("run", "--key", "my talk", "--", "echo", "never")
    assert (second.returncode, second.stdout) == (125, "")
    assert run["run"] in second.stderr
    assert "lastout stop 'my talk'" in second.stderr
    assert second.stderr.count("\n") == 1, "one clear line"
    other = shell("run", "--key", "other", "--", "echo", "mine")
    assert (other.returncode, other.stdout) == (0, "mine\n")


def test_a_second_run_can_wait_for_its_turn(shell: Shell) -> None:
    shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    first = shell.wait_running("k")
    waiting = shell.background("--wait", "--key", "k", *QUICK, "--", "sleep", "60")
    while not (queue := shell.json("ps")["waiting"]):
        assert waiting.poll() is None
    assert [(one["key"], one["pid"]) for one in queue] == [("k", waiting.pid)]
    stopped = shell("stop", "k")
    assert stopped.returncode == 0, stopped.stderr
    assert "exited" in stopped.stdout
    shell.running.remove(waiting)
    waited = shell.running.pop()
    waited.wait()
    if waited.stderr:
        waited.stderr.close()
    shell.running.append(waiting)
    second = shell.wait_running("k")
    assert second["run"] != first["run"]
    assert second["epoch"] == first["epoch"] + 1
    assert shell.json("ps")["waiting"] == []


def test_an_end_in_a_record_is_not_the_end_of_the_next_run_in_it(shell: Shell) -> None:
    """`--record` appends: the last word of the first run must not free the second one's key."""
    record = str(shell.directory / "both.jsonl")
    assert shell("run", "--record", record, "--key", "k", "--", "true").returncode == 0
    second = shell.background("--record", record, "--key", "k", *QUICK, "--", "sleep", "60")
    while Path(record).read_text().count('"event":"started"') < 2:
        assert second.poll() is None
    third = shell("run", "--key", "k", "--", "echo", "never")
    assert (third.returncode, third.stdout) == (125, "")
    assert "lastout stop k" in third.stderr
    [lease] = shell.json("lease list")
    looked = runs.look(record)
    assert (looked.run, looked.state) == (lease["holder"]["run"], "running")
    stopped = shell("stop", "k")
    assert stopped.returncode == 0, stopped.stderr
    assert runs.look(record).state == "over"
    last = journal.read(record)
    assert {event.run for event in last.events} == {looked.run}
    [other] = last.others
    assert len([e for e in journal.read(record, other).events if isinstance(e, Started)]) == 1


def test_an_end_in_a_record_is_not_the_end_of_an_earlier_run_in_it(shell: Shell) -> None:
    record = str(shell.directory / "both.jsonl")
    shell.background("--record", record, "--key", "k", *QUICK, "--", "sleep", "60")
    while not Path(record).exists() or '"event":"started"' not in Path(record).read_text():
        assert shell.running[-1].poll() is None
    assert shell("run", "--record", record, "--key", "other", "--", "true").returncode == 0
    third = shell("run", "--key", "k", "--", "echo", "never")
    assert (third.returncode, third.stdout) == (125, "")
    stopped = shell("stop", "k")
    assert (stopped.returncode, "exited" in stopped.stdout) == (0, True), stopped.stderr


def test_a_record_that_was_taken_away_does_not_undo_the_start(shell: Shell) -> None:
    """The keeper noted that it executed the agent: what that has started since may live."""
    process = shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    run = shell.wait_running("k")
    Path(run["record"]).unlink()
    shell.lose(run)
    process.wait()
    second = shell("run", "--key", "k", "--", "echo", "never")
    assert (second.returncode, second.stdout) == (125, ""), second.stderr
    [lease] = shell.json("lease list")
    assert (lease["verdict"]["kind"], lease["verdict"]["how"]) == ("unproven", "no-record")


def test_the_front_is_the_process_that_was_started(shell: Shell) -> None:
    process = shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    run = shell.wait_running("k")
    assert run["front"]["pid"] == process.pid
    [lease] = shell.json("lease list")
    assert lease["holder"]["front"]["pid"] == process.pid
    assert lease["holder"]["root"]["pid"] == run["root"]["pid"]
    assert lease["holder"]["owner"]["pid"] == os.getpid()


def test_ps_tells_states_and_what_a_lease_is_on(shell: Shell) -> None:
    assert "nothing runs" in shell("ps").stdout
    assert not (shell.state / "leases.sqlite3").exists(), "looking makes no store"
    shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    shell.background(*QUICK, "--", "sleep", "61")
    run = shell.wait_running("k")
    assert run["lease"]["state"] == "committed"
    assert shell.json("lease list")[0]["state"] == "committed"
    while len(shell.json("ps")["runs"]) < 2:
        pass
    listing = shell("ps").stdout
    assert "sleep 61" in listing
    assert "running" in listing
    shell.lose(run)
    [lost] = [one for one in shell.json("ps")["runs"] if one["run"] == run["run"]]
    assert lost["state"] == "lost"
    assert "killed" in shell("recover", "k").stdout
    assert run["run"] not in shell("ps").stdout


def test_stop_by_run_by_its_beginning_and_by_key(shell: Shell) -> None:
    for word in ("run", "beginning", "key"):
        shell.background("--key", word, *QUICK, "--", "sleep", "60")
        run = shell.wait_running(word)
        name = {"run": run["run"], "beginning": run["run"][:-2], "key": word}[word]
        stopped = shell("stop", name, "--reason", "enough")
        assert (stopped.returncode, stopped.stderr) == (0, "")
        notes = [one for one in journal.read(run["record"]).events if isinstance(one, Note)]
        assert notes[0].detail["reason"] == "enough"
    unknown = shell("stop", "nobody")
    assert unknown.returncode == 1
    assert "nobody" in unknown.stderr


def test_stop_now_leaves_out_the_graces(shell: Shell) -> None:
    shell.background("--key", "k", "--term-grace", "25", "--", *RUDE)
    run = shell.wait_running("k")
    stopped = shell("stop", "k", "--now", "--json")
    document = json.loads(stopped.stdout)
    assert document["verdict"]["kind"] == "exited", "the supervisor itself saw the end"
    assert stopped.returncode == 0
    assert identity.still_alive(shell.identity(run, "root")) is identity.Alive.NO
    began, done = (one for one in journal.read(run["record"]).events if isinstance(one, Forced))
    assert began.detail == {"how": "now"}
    assert done.detail["signalled_count"] >= 1
    assert shell.identity(run, "root").pid in {one["pid"] for one in done.detail["signalled"]}
    why = shell("why", run["run"]).stdout
    assert "lastout itself had sent SIGKILL to the root" in why
    assert "lastout itself sent the root no SIGKILL" not in why
    assert "Whether anybody besides lastout sent SIGKILL" in why


@pytest.mark.still
def test_stop_of_a_run_whose_supervisors_hang(shell: Shell) -> None:
    shell.background("--key", "k", *QUICK, "--reap-bound", "0.2", "--", *RUDE)
    run = shell.wait_running("k")
    for name in ("front", "keeper"):
        kill(shell.identity(run, name), SIGSTOP)
    stopped = shell("stop", "k")
    assert stopped.returncode == 0
    assert "exited" in stopped.stdout, "SIGCONT was enough"


def test_show_tells_history_and_evidence(shell: Shell) -> None:
    for _ in range(2):
        assert shell("run", "--key", "k", "--", "true").returncode == 0
    shown = shell("lease show", "k").stdout
    assert "tree-gone" in shown
    document = shell.json("lease show", "k")
    assert [entry["event"] for entry in document["history"]] == ["reserved", "exited", "reserved"]
    assert document["epoch"] == 2
    assert shell("lease show", "unheard").returncode == 1


def unproven(shell: Shell, key: str) -> Path:
    """A lease whose agent nobody can see: it ran in another pid namespace."""
    store = sole_writer.open_store(shell.state)
    record = shell.directory / "elsewhere.jsonl"
    record.touch()
    who = ProcessIdentity(4711, 5, 6, identity.boot_id(), 1)
    held = Holder("elsewhere", record=str(record), owner=who, front=who, boot_id=who.boot_id)
    lease = store.change(key, lambda found, at: model.reserve(found and found.lease, key, held, at))
    verdict = Verdict("unproven", "cannot-tell")
    store.change(
        key, lambda found, at: model.settle(found and found.lease, lease.epoch, verdict, at)
    )
    return record


def test_an_unproven_lease_is_refused_with_the_ways_out_and_released_with_a_reason(
    shell: Shell,
) -> None:
    record = unproven(shell, "k")
    for _ in range(2):
        refused = shell("run", "--key", "k", "--", "echo", "never")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert "lastout recover k" in refused.stderr
        assert "lastout lease release k --reason" in refused.stderr
    recovered = shell("recover", "k")
    assert recovered.returncode == 1
    assert "unproven" in recovered.stdout
    assert shell("lease release", "k").returncode == 2, "a reason is needed"
    assert shell("lease release", "k", "--reason", " ").returncode == 1
    released = shell("lease release", "k", "--reason", "that host is gone")
    assert released.returncode == 0, released.stderr
    [note] = [one for one in journal.read(record).events if isinstance(one, Note)]
    assert note.detail["reason"] == "that host is gone"
    assert "that host is gone" in shell("lease show", "k").stdout
    assert shell("run", "--key", "k", "--", "echo", "mine").stdout == "mine\n"


def test_a_lease_that_is_held_cannot_be_released(shell: Shell) -> None:
    shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    shell.wait_running("k")
    refused = shell("lease release", "k", "--reason", "I want it")
    assert refused.returncode == 1
    assert "lastout stop" in refused.stderr
    assert shell("lease release", "unheard", "--reason", "x").returncode == 1


def test_recover_says_first_what_it_would_do(shell: Shell) -> None:
    assert "nothing to recover" in shell("recover").stdout
    shell.background("--key", "k", *QUICK, "--", "sleep", "60")
    run = shell.wait_running("k")
    would = shell("recover", "--dry-run").stdout
    assert "would leave it alone" in would
    shell.lose(run)
    [told] = shell.json("recover", "--dry-run")
    assert (told["step"], told["verdict"]["kind"]) == ("settle", "killed")
    assert len(shell.json("lease list")) == 1, "a dry run writes nothing"
    [done] = shell.json("recover")
    assert done["verdict"]["how"] == "root-gone"
    assert shell.json("lease list") == []


def test_bad_words_are_said_in_one_line(shell: Shell) -> None:
    for words, status in (
        (["run", "--wait", "--", "true"], 125),
        (["run", "--key", "k", "--no-record", "--", "true"], 125),
        (["run", "--key", "", "--", "true"], 125),
        (["stop"], 2),
        (["lease", "nonsense"], 2),
    ):
        done = subprocess.run([*LASTOUT, *words], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


def test_a_terminal_is_not_written_to_by_a_key(shell: Shell) -> None:
    shell.background("--key", "\x1b[31mred\n", *QUICK, "--", "sleep", "60")
    while not shell.json("ps")["runs"]:
        pass
    for name in ("ps", "lease list"):
        assert "\x1b" not in shell(name).stdout


def test_another_users_state_directory_is_refused(shell: Shell) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(shell.state, 65534, 65534)
    done = shell("run", "--key", "k", "--", "echo", "never")
    assert (done.returncode, done.stdout) == (125, "")
    assert "65534" in done.stderr or str(shell.state) in done.stderr
