"""Whoever has to do with a job is killed at every step of it: it ends once, its result is there
once, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.identity import Identity
from harness.jobs import PATIENCE, runners_end
from harness.pauses import stillness
from lastout import identity
from lastout.evidence.watch import Watch
from lastout.identity import take
from lastout.jobs import AgentTurn, AlreadyTaken, Command, Job, Jobs, door, open_jobs, route
from lastout.jobs import queue as queues
from lastout.recovery import case
from lastout.recovery.case import Known

_HARNESS = str(Path(__file__).resolve().parent.parent)
_SOURCE = str(Path(queues.__file__).resolve().parent.parent.parent)

_SUBMITS = """
import sys
sys.path[:0] = [{harness!r}, {source!r}]
from harness import dying
count = dying.arm({number})
from lastout.jobs import Command, open_jobs
job = open_jobs({state!r}).submit(Command(["sh", "-c", "echo x >>{marks}; setsid sleep 600 &"]{more}))
print(job.id, count())
"""

_TAKES = """
import sys
sys.path[:0] = [{harness!r}, {source!r}]
from harness import dying
count = dying.arm({number})
from lastout.jobs import Job
print(Job({state!r}, {job!r}).take("first").turn, count())
"""


_CANCELS = """
import sys
sys.path[:0] = [{harness!r}, {source!r}]
from harness import dying
count = dying.arm({number})
from lastout.jobs import Job
print(Job({state!r}, {job!r}).cancel(by="her"), count())
"""


def _steps(every: int, most: int) -> object:
    """Numbers of steps: some of them here, all of them in the torture run."""
    first = list(range(1, most + 1))
    return pytest.mark.parametrize(
        "number",
        [n if n % every == 1 else pytest.param(n, marks=pytest.mark.torture) for n in first],
    )


def _python(code: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stdout.split()


def _ends_once(state: str, marks: Path, before: set[Identity]) -> None:
    """Somebody comes and looks after it; then everything is over, and has happened once."""
    store = open_jobs(state)
    store.recover()
    found = [Job(state, one) for one in store.ids()]
    assert len(found) <= 1
    done = marks.read_text() if marks.exists() else ""
    for job in found:
        result = job.wait(PATIENCE)
        done = marks.read_text() if marks.exists() else ""
        assert result.final
        assert result.remaining_count == 0
        if result.why == "completion":
            assert not result.failed
            assert done == "x\n"
        else:
            assert result.why == "runner-lost"
        assert job.status().results == (1,)
        numbers = [event.seq for event in job.feed()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert job.take("me") == result
    assert done in ("", "x\n")
    runners_end(state, before)
    store.recover()
    runners_end(state, before)
    assert queues.entries(state) == []
    assert queues.active(state) == []
    assert not [name for name in os.listdir(store.directory) if name.startswith(".half")]


@_steps(7, 48)
@pytest.mark.parametrize("name", [None, "named"])
def test_the_submitter_is_killed(
    store: Jobs, tmp_path: Path, nothing_left: set[Identity], number: int, name: str | None
) -> None:
    marks = tmp_path / "marks"
    more = "" if name is None else f", name={name!r}"
    code = _SUBMITS.format(
        harness=_HARNESS, source=_SOURCE, number=number, state=store.state, marks=marks, more=more
    )
    status, said = _python(code)
    if status == 0 and int(said[1]) < number:
        pytest.skip(f"it takes {said[1]} steps")
    assert status in (0, -signal.SIGKILL)
    if name is not None:
        # The name is the dead one's only where its job is there.
        ids = list(store.ids())
        if ids:
            assert store.get(name).id == ids[0]
        else:
            store.submit(Command(["sh", "-c", f"echo x >>{marks}"], name=name))
    _ends_once(store.state, marks, nothing_left)


@_steps(5, 56)
def test_the_runner_is_killed(
    store: Jobs,
    tmp_path: Path,
    nothing_left: set[Identity],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boot = route._BOOT
    armed = f"import sys; sys.path.insert(0, {_HARNESS!r}); from harness import dying; "
    marks = tmp_path / "marks"
    monkeypatch.setattr(route, "_BOOT", f"{armed} dying.arm({number}); {boot}")
    job = store.submit(Command(["sh", "-c", f"echo x >>{marks}; setsid sleep 600 &"]))
    monkeypatch.setattr(route, "_BOOT", boot)
    _ends_once(store.state, marks, nothing_left)
    assert job.result().final


@_steps(3, 16)
def test_who_recovers_a_lost_job_is_killed(
    store: Jobs, tmp_path: Path, nothing_left: set[Identity], number: int
) -> None:
    marks = tmp_path / "marks"
    said = tmp_path / "said"
    os.mkfifo(said)
    job = store.submit(Command(["sh", "-c", f"echo x >>{marks}; echo >{said}; exec sleep 600"]))
    said.read_text()
    runner = job.status().runner
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    code = f"""
import sys
sys.path[:0] = [{_HARNESS!r}, {_SOURCE!r}]
from harness import dying
count = dying.arm({number})
from lastout import jobs
jobs.recover({store.state!r})
print(count())
"""
    status, told = _python(code)
    if status == 0 and int(told[0]) < number:
        pytest.skip(f"it takes {told[0]} steps")
    _ends_once(store.state, marks, nothing_left)
    assert job.result().why == "runner-lost"


@_steps(7, 28)
@pytest.mark.parametrize("agent", [False, True])
def test_who_cancels_a_job_that_waits_is_killed(
    store: Jobs, tmp_path: Path, nothing_left: set[Identity], number: int, agent: bool
) -> None:
    with door.door(store.state):  # nobody else may run meanwhile
        held = [slot for _ in range(4) if (slot := door.free_slot(store.state)) is not None]
    marks = tmp_path / "marks"
    if agent:
        job = store.submit(AgentTurn(agent="scripted", prompt=f"/run echo x >>{marks}", keep=0))
        job.message("/say more")
    else:
        job = store.submit(Command(["sh", "-c", f"echo x >>{marks}"]))
    code = _CANCELS.format(
        harness=_HARNESS, source=_SOURCE, number=number, state=store.state, job=job.id
    )
    status, said = _python(code)
    asked = any(Path(job.directory).glob("inbox*/cancel-*"))
    for _, fd in held:
        os.close(fd)
    if status == 0 and int(said[1]) < number:
        pytest.skip(f"it takes {said[1]} steps")
    store.recover()
    job.wait(PATIENCE)
    runners_end(store.state, nothing_left)
    result = job.wait(PATIENCE)
    assert (result.why in ("abort", "runner-lost"), marks.exists()) == (asked, not asked)
    assert result.remaining_count == 0
    assert queues.entries(store.state) == []
    assert queues.active(store.state) == []


@_steps(2, 8)
def test_the_taker_is_killed(store: Jobs, number: int) -> None:
    job = store.submit(Command(["true"]))
    job.wait(PATIENCE)
    code = _TAKES.format(
        harness=_HARNESS, source=_SOURCE, number=number, state=store.state, job=job.id
    )
    status, said = _python(code)
    if status == 0 and int(said[1]) < number:
        pytest.skip(f"it takes {said[1]} steps")
    try:
        job.take("second")
    except AlreadyTaken as error:
        assert error.taker == "first"
        assert job.take("first").final  # it asks again after its restart
    else:
        with pytest.raises(AlreadyTaken):
            job.take("first")


def test_both_supervisors_are_killed_and_the_runner_with_them(store: Jobs, tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    detached = f"setsid sh -c 'echo $$ >{said}; exec sleep 600' & exec sleep 600"
    job = store.submit(Command(["sh", "-c", detached]))
    left = take(int(said.read_text()))
    known = _known(job)
    runner = job.status().runner
    assert runner is not None
    assert known.front is not None
    assert known.keeper is not None
    # Together: whoever is left for a moment begins to clean up.
    stillness.ask()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (runner.pid, known.front.pid, known.keeper.pid):
            os.kill(pid, number)
    result = job.wait(PATIENCE)
    # The root died with its keeper. What it had detached has nobody any more who could find it,
    # so nobody says that it is gone.
    assert (result.why, result.failed, result.remaining_count) == ("runner-lost", True, None)
    identity.signal(left, signal.SIGKILL)
    assert identity.wait_dead(left, PATIENCE) is identity.Alive.NO


def test_many_recover_a_lost_job_and_one_does(store: Jobs, tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    job = store.submit(
        Command(["sh", "-c", f"echo before; setsid sleep 600 & echo >{said}; exec sleep 600"])
    )
    said.read_text()
    runner = job.status().runner
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.extend(store.recover())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = job.wait(PATIENCE)
    assert (result.why, result.remaining_count) == ("runner-lost", 0)
    assert len([one for one in job.feed() if type(one).__name__ == "Ended"]) == 1
    assert len(found) <= 1  # a runner that was started may have been first
    assert result.stdout is not None
    assert job.output()[0] in (b"before\n", b"")
    assert result.stdout.total == len(job.output()[0])


def test_a_job_whose_runners_cannot_start_runs_when_they_can(
    store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = route._BOOT
    monkeypatch.setattr(route, "_BOOT", "import sys; sys.exit(3)")
    job = store.submit(Command(["true"]))
    with pytest.raises(TimeoutError, match="it goes on"):
        job.wait(0.5)
    assert job.status().state == "queued"
    monkeypatch.setattr(route, "_BOOT", boot)
    assert job.wait(PATIENCE).code == 0


def test_a_machine_that_was_restarted(store: Jobs, tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    job = store.submit(Command(["sh", "-c", f"echo >{said}; exec sleep 600"]))
    said.read_text()
    runner = job.status().runner
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    # What a reboot leaves: the files of another boot, whose processes are strangers now.
    for path in (Path(job.directory) / "state.json", Path(job.status().record or "")):
        text = path.read_text()
        path.write_text(text.replace(runner.boot_id, "00000000-0000-4000-8000-000000000000"))
    result = job.wait(PATIENCE)
    assert (result.why, result.remaining_count) == ("runner-lost", 0)
    assert "restarted" in (result.reason or "")


def test_a_supervisor_that_was_killed_is_no_lost_runner(store: Jobs, tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    detached = f"setsid sh -c 'echo >{said}; exec sleep 600' & exec sleep 600"
    job = store.submit(Command(["sh", "-c", detached]))
    said.read_text()
    known = _known(job)
    assert known.front is not None
    os.kill(known.front.pid, signal.SIGKILL)
    result = job.wait(PATIENCE)
    assert (result.why, result.failed, result.remaining_count) == ("abort", True, 0)
    assert result.stopped_count == 1


def _known(job: Job) -> Known:
    """What the record says, once it says it: it is written behind the lines' back."""
    record = job.status().record
    assert record is not None
    with Watch() as watch:
        watch.add(os.path.dirname(record))
        while (known := case.read(case.of_record(record))).front is None:
            watch.wait(PATIENCE)
        return known
