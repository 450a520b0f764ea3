"""Signals to the supervisor: which stop the run, which are passed on, which do nothing."""

from __future__ import annotations

import os
import signal
from signal import (
    SIGALRM,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGPIPE,
    SIGQUIT,
    SIGSTOP,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
)

import pytest

from harness import Scene
from harness.run import between_ms

STOPPING = [SIGTERM, SIGINT, SIGHUP, SIGQUIT]


def short(number: signal.Signals) -> str:
    return number.name.removeprefix("SIG")


@pytest.mark.parametrize("number", STOPPING, ids=short)
def test_root_gets_sigterm_and_its_grace_and_the_supervisor_dies_by_the_signal(
    scene: Scene, number: signal.Signals
) -> None:
    run = scene.run(
        "root term=clean:150:0 note=INT,HUP,QUIT [ child ignore ] [daemon escapee ignore ]"
    )
    root = scene.member("root")
    run.signal(number)
    ended = run.ends(signal=number)
    assert not os.WCOREDUMP(ended.raw)
    assert "cleaned" in root.notes
    assert root.arrivals(SIGTERM) == 1
    assert number is SIGTERM or root.arrivals(number) == 0
    stop = run.event("stop", trigger="signal", signal=short(number))
    assert (stop["sender"]["pid"], stop["sender"]["uid"]) == (os.getpid(), os.getuid())
    assert run.event("root-exited")["code"] == 0
    assert run.events[-1]["event"] == "tree-gone"


def test_a_second_signal_neither_ends_nor_restarts_the_ladder(scene: Scene) -> None:
    run = scene.run(
        "root ignore=INT,HUP note=TERM [daemon escapee ignore ]", graces=(0.2, 0.8, 5.0)
    )
    root = scene.member("root")
    run.signal(SIGTERM)
    first = run.event("signalled", signal="TERM", target="root-group")
    for number in (SIGINT, SIGTERM, SIGHUP, SIGQUIT):
        run.signal(number)
    run.event("stop-again", signal="QUIT")
    run.ends(signal=SIGTERM)
    assert root.arrivals(SIGTERM) == 1
    assert len(run.all("stop")) == 1
    killed = run.event("signalled", signal="KILL")
    assert 800 <= between_ms(first, killed) < 800 + 600, "the grace ran from the first signal"


def test_a_second_signal_does_not_cut_the_grace(scene: Scene) -> None:
    run = scene.run("root term=clean:400:0", graces=(0.2, 5.0, 5.0))
    root = scene.member("root")
    run.signal(SIGTERM)
    root.wait_note("cleaning")
    for number in (SIGTERM, SIGINT, SIGTERM):
        run.signal(number)
    run.ends(signal=SIGTERM)
    assert "cleaned" in root.notes


@pytest.mark.parametrize("round_", range(12))
def test_a_signal_in_the_instant_after_the_spawn_still_stops_the_root(
    scene: Scene, round_: int
) -> None:
    run = scene.run("root ignore [daemon escapee ignore ]", graces=(0.1, 0.2, 5.0))
    # From "before it has run one instruction" to "the root exists": a spin, not a sleep.
    for _ in range(round_ * round_ * 60):
        os.getppid()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_other_signals_never_end_it(scene: Scene) -> None:
    run = scene.run("root note=USR1,USR2,WINCH,CONT,PIPE,ALRM")
    root = scene.member("root")
    others = [SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO]
    others += [signal.SIGXCPU, signal.SIGXFSZ, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP]
    others += [signal.SIGURG, signal.SIGPWR, signal.SIGABRT, signal.SIGSYS, signal.SIGWINCH]
    for process in (run.front, run.keeper):
        for number in others:
            process.signal(number)
    scene.until(lambda: root.arrivals(SIGUSR2), "USR2 is passed on")
    assert root.alive()
    assert root.arrivals(SIGPIPE) == 0
    assert root.arrivals(SIGALRM) == 0
    assert not run.all("stop")
    assert run.front.state() in "SR"
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.parametrize("number", [SIGUSR1, SIGUSR2, signal.SIGWINCH, SIGCONT], ids=short)
def test_passed_on_once_to_the_roots_group_and_recorded(
    scene: Scene, number: signal.Signals
) -> None:
    run = scene.run("root note=USR1,USR2,WINCH,CONT [ child note=USR1,USR2,WINCH,CONT ]")
    root, child = scene.member("root"), scene.member("child")
    run.signal(number)
    scene.until(lambda: root.arrivals(number) and child.arrivals(number), "both got it")
    line = run.event("signalled", signal=short(number), forwarded=True)
    assert line["sender"]["pid"] == os.getpid()
    assert line["result"] == "delivered"
    root.tell("exit 0")
    child.wait_gone()
    run.ends(code=0)
    assert (root.arrivals(number), child.arrivals(number)) == (1, 1)
    assert not run.all("stop", trigger="signal")


def test_a_signal_named_by_forward_is_no_trigger(scene: Scene) -> None:
    run = scene.run("root note=INT,HUP", "--forward", "INT,SIGHUP")
    root = scene.member("root")
    run.signal(SIGINT)
    run.signal(SIGHUP)
    scene.until(lambda: root.arrivals(SIGINT) and root.arrivals(SIGHUP), "both passed on")
    assert root.alive()
    assert not run.all("stop")
    run.signal(SIGQUIT)
    run.ends(signal=SIGQUIT)


def test_under_nohup_hup_does_nothing(scene: Scene) -> None:
    run = scene.run("root note=USR1", via=["nohup"])
    root = scene.member("root")
    run.signal(SIGHUP)
    run.signal(SIGUSR1)
    scene.until(lambda: root.arrivals(SIGUSR1), "USR1 arrives after HUP")
    assert root.alive()
    assert not run.all("stop")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_as_a_background_command_of_a_script_int_and_quit_do_nothing(scene: Scene) -> None:
    run = scene.run("root note=USR1", via=["sh", "-c", '"$@" & wait $!', "sh"], stdin="null")
    root = scene.member("root")
    for number in (SIGINT, SIGQUIT, SIGUSR1):
        run.front.signal(number)
    scene.until(lambda: root.arrivals(SIGUSR1), "USR1 arrives after INT")
    assert root.alive()
    assert not run.all("stop")
    run.front.signal(SIGTERM)
    run.ends(code=128 + SIGTERM)


def test_term_always_stops_even_when_it_was_ignored_at_the_start(scene: Scene) -> None:
    run = scene.run("root", via=[*scene.program("enter"), "--ignore", "TERM", "--"])
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["signal"] == "TERM", "default in the root again"


def test_a_stopped_root_is_continued_so_that_it_hears_sigterm(scene: Scene) -> None:
    run = scene.run("root term=exit:0", graces=(0.2, 10.0, 5.0))
    root = scene.member("root")
    root.signal(SIGSTOP)
    root.wait_state("T")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["code"] == 0


def test_nobody_gets_sigterm_twice(scene: Scene) -> None:
    run = scene.run(
        "root note=TERM [ child note=TERM ] [daemon escapee note=TERM ] [ own setpgid note=TERM ]"
    )
    root = scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    counts = {r: scene.member(r).arrivals(SIGTERM) for r in ("root", "child", "escapee", "own")}
    assert counts == {"root": 1, "child": 1, "escapee": 1, "own": 1}
    assert root.gone


def test_a_fast_root_costs_no_wait(scene: Scene) -> None:
    run = scene.run("root term=exit:0", graces=(10.0, 30.0, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert between_ms(run.event("stop"), run.event("tree-gone")) < 5000


def test_nothing_is_killed_before_the_grace_is_over(scene: Scene) -> None:
    run = scene.run("root ignore [daemon escapee ignore ]", graces=(0.2, 0.7, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    asked = run.event("signalled", signal="TERM", target="root-group")
    killed = run.event("signalled", signal="KILL")
    assert between_ms(asked, killed) >= 700
    assert not run.all("takeover"), "the keeper itself was in time"
    assert run.event("root-exited")["signal"] == "KILL"


def test_the_tree_is_gone_before_the_supervisor(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon escapee ignore ]")
    escapee = scene.member("escapee")
    run.signal(SIGTERM)
    run.process.wait_gone()
    assert not escapee.identity.alive(), "looked at before anything else is waited for"
    run.ends(signal=SIGTERM)
