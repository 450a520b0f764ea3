"""Who may run next: so many at once, askers in turn, the oldest of one asker first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.jobs import PATIENCE, Gate, Line, Until
from lastout.jobs import AgentTurn, Command, Job, Jobs, NameTaken, NoSuchJob
from lastout.jobs import queue as queues


def _holds(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate, count: int
) -> list[tuple[Job, Callable[[], object]]]:
    """Jobs that run until they are let go on."""
    found = []
    for number in range(count):
        go = gate(f"go{number}")
        script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go{number}"
        found.append((store.submit(Command(["sh", "-c", script], by="holder")), go))
        line()
    return found


def test_no_more_than_the_limit_run_at_once(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate
) -> None:
    assert store.limit == 4
    store.set_limit(2)
    held = _holds(store, tmp_path, line, gate, 2)
    third = store.submit(Command(["true"]))
    assert (third.status().state, third.status().place) == ("queued", 0)
    store.set_limit(3)  # for every caller, at once
    assert third.wait(PATIENCE).code == 0
    for job, go in held:
        go()
        assert job.wait(PATIENCE).code == 0


def test_many_jobs_run_once_each_and_few_at_a_time(store: Jobs, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"echo + >>{log}; echo - >>{log}"
    found = [store.submit(Command(["sh", "-c", script])) for _ in range(40)]
    assert [job.wait(PATIENCE).code for job in found] == [0] * 40
    said = log.read_text().split()
    running = most = 0
    for word in said:
        running += 1 if word == "+" else -1
        most = max(most, running)
    assert (len(said), running) == (80, 0)
    assert most <= 4


def test_askers_take_turns_and_of_one_the_oldest_comes_first(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate
) -> None:
    store.set_limit(1)
    ((holder, go),) = _holds(store, tmp_path, line, gate, 1)
    log = tmp_path / "log"

    def ask(by: str, number: int) -> Job:
        return store.submit(Command(["sh", "-c", f"echo {by}{number} >>{log}"], by=by))

    # One asks for much before another asks for anything.
    found = [ask("greedy", number) for number in range(4)]
    found += [ask("modest", number) for number in range(2)]
    places = {job.id: job.status().place for job in found}
    go()
    for job in [holder, *found]:
        job.wait(PATIENCE)
    told = log.read_text().split()
    assert told == ["greedy0", "modest0", "greedy1", "modest1", "greedy2", "greedy3"]
    assert [places[job.id] for job in found] == [0, 2, 4, 5, 1, 3]


def test_a_cancel_takes_a_job_out_of_the_queue(
    store: Jobs, tmp_path: Path, line: Line, gate: Gate
) -> None:
    store.set_limit(1)
    ((_, go),) = _holds(store, tmp_path, line, gate, 1)
    job = store.submit(Command(["touch", str(tmp_path / "ran")]))
    assert job.cancel(by="her")
    result = job.result()  # at once, without anybody's help
    assert (result.why, result.ended_by, result.final) == ("abort", "her", True)
    assert [entry.job for entry in queues.entries(store.state)] == []
    assert not job.cancel()
    go()
    assert not (tmp_path / "ran").exists()


def test_a_cancel_while_it_starts_starts_nothing_or_stops_it(store: Jobs, tmp_path: Path) -> None:
    # The cancel comes at any moment of the start: before, between and after everything.
    for number in range(12):
        job = store.submit(Command(["sh", "-c", f"echo >{tmp_path}/ran{number}; exec sleep 600"]))
        _spin(number)
        assert job.cancel()
        result = job.wait(PATIENCE)
        assert (result.why, result.failed, result.remaining_count) == ("abort", True, 0)
        assert result.stdout is None or result.signal is not None


def _spin(number: int) -> None:
    """A little later every time; what happens meanwhile is as the machine likes it."""
    for _ in range(number * 40_000):
        pass


def test_two_callers_and_one_name(store: Jobs, tmp_path: Path, line: Line, gate: Gate) -> None:
    told: list[object] = []
    script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go"
    go = gate()

    def ask() -> None:
        try:
            told.append(store.submit(Command(["sh", "-c", script], name="the one")))
        except NameTaken as error:
            told.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (job,) = [one for one in told if isinstance(one, Job)]
    errors = [one for one in told if isinstance(one, NameTaken)]
    assert [error.job for error in errors] == [job.id] * 3
    assert "Nothing was written" in str(errors[0])
    assert [one.id for one in store.list()] == [job.id]
    assert store.get("the one").id == job.id
    assert line() == "on"
    go()
    job.wait(PATIENCE)
    again = store.submit(Command(["true"], name="the one"))  # a name is free after the end
    assert store.get("the one").id == again.id
    again.wait(PATIENCE)


def test_a_job_is_found_by_its_beginning(store: Jobs) -> None:
    one = store.submit(Command(["true"]))
    assert store.get(one.id[:-1]).id == one.id
    two = store.submit(Command(["true"]))
    with pytest.raises(NoSuchJob, match="beginning of 2 jobs"):
        store.get(one.id[:4])
    with pytest.raises(NoSuchJob, match="no job"):
        store.get("nothing")
    for job in (one, two):
        job.wait(PATIENCE)


@pytest.mark.parametrize(
    "work",
    [
        Command([]),
        Command(["true"], timeout=0),
        Command(["true"], timeout=float("nan")),
        Command(["true"], graces="no such preset"),
        Command(["true"], contain="box"),
        Command(["true"], name="20261130T101500-abcdef"),
        Command(["true"], name=" blank"),
        Command(["tr\0ue"]),
        Command(["true"], env={"A=B": "c"}),
        Command(["\udcff"]),
        Command(["true"], output="file"),
        AgentTurn(agent="", prompt="hello"),
    ],
)
def test_what_could_never_run_is_refused_and_nothing_is_written(
    store: Jobs, work: Command | AgentTurn
) -> None:
    with pytest.raises(ValueError):
        store.submit(work)
    assert list(store.ids()) == []


_INSIDE = """
import sys
sys.path.insert(0, {source!r})
from lastout.jobs import Command, NoRoute, open_jobs
try:
    job = open_jobs({state!r}).submit(Command(["sh", "-c", {script!r}]))
except NoRoute as error:
    print("refused:", error)
else:
    print(job.id, flush=True)
    sys.stdin.read()
"""


def _inside(store: Jobs, script: str, *before: str) -> subprocess.Popen[str]:
    from lastout.supervisor import command

    source = str(Path(queues.__file__).resolve().parent.parent.parent)
    code = _INSIDE.format(source=source, state=store.state, script=script)
    return subprocess.Popen(
        command([*before, sys.executable, "-c", code]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={},  # hosts trim it
    )


def test_below_a_run_nothing_is_submitted_without_a_route(store: Jobs) -> None:
    caller = _inside(store, "true")
    said, _ = caller.communicate(timeout=PATIENCE)
    assert said.startswith("refused: this process belongs to a run of lastout")
    assert "lastout job serve" in said
    assert os.listdir(store.state) == []  # nothing was written


def test_a_job_submitted_below_a_run_outlives_that_run(
    store: Jobs, tmp_path: Path, line: Line, until: Until, gate: Gate
) -> None:
    from lastout.jobs import door, route

    def serves() -> bool:
        with door.door(store.state):
            return route.serving_now(store.state)

    source = str(Path(queues.__file__).resolve().parent.parent.parent)
    serve = "import sys; sys.path.insert(0, sys.argv[1]); from lastout.jobs.serving import serve; "
    server = subprocess.Popen(
        [sys.executable, "-c", serve + "serve(sys.argv[2])", source, store.state]
    )
    while not serves():
        os.sched_yield()
    go = gate()
    script = f"echo on >{tmp_path}/said; read x <{tmp_path}/go"
    caller = _inside(store, script)
    assert caller.stdout is not None
    job = store.get(caller.stdout.readline().strip())
    assert line() == "on"
    server.kill()  # it holds nothing of the job
    server.wait()
    # The caller's whole run is ended; the job is no member of it.
    caller.terminate()
    caller.communicate(timeout=PATIENCE)
    assert until(job, lambda status: status.runner_alive).state == "running"
    go()
    assert job.wait(PATIENCE).code == 0


def test_a_job_may_submit_a_job_and_wait_for_it(store: Jobs) -> None:
    source = str(Path(queues.__file__).resolve().parent.parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {source!r})\n"
        "from lastout.jobs import Command, open_jobs\n"
        f"job = open_jobs({store.state!r}).submit(Command(['echo', 'from the second']))\n"
        f"job.wait({PATIENCE})\n"
        "print(job.output()[0].decode(), end='')"
    )
    # Nobody but the outer job's own runner is there to start the inner one.
    outer = store.submit(Command([sys.executable, "-c", code]))
    assert outer.wait(PATIENCE).code == 0
    assert outer.output()[0] == b"from the second\n"
