"""The control socket: the same lines out, commands in, and peers that behave badly."""

from __future__ import annotations

import json
import os
import signal
import time
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, SIGUSR1

import pytest

from harness import Scene
from harness.holder import hold
from harness.run import between_ms


def test_the_same_lines_as_in_the_record(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]", control=True)
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    scene.until(lambda: run.hung_up, "the end of the socket")
    assert run.control.events == run.events
    assert run.control.text == run.record.text


@pytest.mark.parametrize("reason", ["completion", "timeout", "abort", "shutdown", "idle", "user"])
def test_stop_with_reason_and_by_whom(scene: Scene, reason: str) -> None:
    run = scene.run("root term=clean:50:3", control=True)
    root = scene.member("root")
    run.command(cmd="stop", reason=reason, by='the "host" é☃\n')
    run.ends(code=3)
    stop = run.event("stop", trigger="requested")
    assert (stop["reason"], stop["by"]) == (reason, 'the "host" é☃\n')
    assert "cleaned" in root.notes


def test_stop_without_any_detail(scene: Scene) -> None:
    run = scene.run("root term=exit:0", control=True)
    scene.member("root")
    run.command(cmd="stop")
    run.ends(code=0)
    stop = run.event("stop", trigger="requested")
    assert (stop["reason"], stop["by"], stop["term_grace_ms"]) == (None, None, 500)


def test_grace_zero_goes_straight_to_sigkill(scene: Scene) -> None:
    run = scene.run("root note=TERM [daemon left ignore ]", control=True, graces=(9.0, 29.0, 5.0))
    root = scene.member("root")
    run.command(cmd="stop", reason="abort", grace_ms=0)
    run.ends(signal=SIGKILL)
    assert root.arrivals(SIGTERM) == 0
    assert run.event("stop")["term_grace_ms"] == 0


def test_a_given_grace_is_kept(scene: Scene) -> None:
    run = scene.run("root ignore", control=True, graces=(9.0, 29.0, 5.0))
    scene.member("root")
    run.command(cmd="stop", grace_ms=300)
    run.ends(signal=SIGKILL)
    asked = run.event("signalled", signal="TERM")
    assert 300 <= between_ms(asked, run.event("signalled", signal="KILL")) < 5000


def test_a_grace_cannot_be_made_longer(scene: Scene) -> None:
    run = scene.run("root ignore", control=True)
    scene.member("root")
    run.command(cmd="stop", grace_ms=29000)
    run.ends(signal=SIGKILL)
    assert run.event("stop")["term_grace_ms"] == 500


@pytest.mark.parametrize("stage", ["term", "stdin"])
def test_a_stop_under_way_is_shortened(scene: Scene, stage: str) -> None:
    run = scene.run("root ignore", control=True, graces=(9.0, 29.0, 5.0))
    scene.member("root")
    if stage == "term":
        run.signal(SIGTERM)
        run.event("signalled", signal="TERM")
    else:
        run.close_stdin()
        run.event("stop", trigger="stdin-ended")
    run.command(cmd="stop", reason="user", grace_ms=0)
    run.wait()
    run.nobody_left()
    assert run.event("stop-again", trigger="requested")["shortened"] is True
    assert between_ms(run.event("stop"), run.event("tree-gone")) < 8000


def test_a_second_stop_without_a_grace_changes_nothing(scene: Scene) -> None:
    run = scene.run("root term=clean:300:0", control=True, graces=(0.2, 5.0, 5.0))
    root = scene.member("root")
    run.command(cmd="stop", reason="idle")
    root.wait_note("cleaning")
    run.command(cmd="stop", reason="user")
    run.ends(code=0)
    assert run.event("stop-again", reason="user")["shortened"] is False
    assert run.event("stop")["reason"] == "idle"
    assert "cleaned" in root.notes


def test_its_hang_up_stops_the_run(scene: Scene) -> None:
    run = scene.run("root term=clean:50:4 [daemon left ignore ]", control=True)
    root = scene.member("root")
    run.hang_up()
    run.ends(code=4)
    run.event("stop", trigger="owner-hung-up")
    assert "cleaned" in root.notes


def test_a_signal_by_name_reaches_the_roots_group(scene: Scene) -> None:
    run = scene.run("root note=USR1,INT [ child note=USR1,INT ]", control=True)
    root, child = scene.member("root"), scene.member("child")
    run.command(cmd="signal", name="USR1")
    run.command(cmd="signal", name="SIGINT")
    scene.until(lambda: root.arrivals(signal.SIGINT) and child.arrivals(signal.SIGINT), "INT")
    scene.until(lambda: root.arrivals(SIGUSR1) and child.arrivals(SIGUSR1), "USR1")
    assert (root.arrivals(SIGUSR1), child.arrivals(SIGUSR1)) == (1, 1)
    run.answer("signalled", signal="USR1")
    assert not run.all("stop")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_list_answers_on_the_socket_alone(scene: Scene) -> None:
    run = scene.run("root [daemon left name=left-one ]", control=True)
    left, root = scene.member("left"), scene.member("root")
    run.command(cmd="list")
    line = run.answer("list")
    assert (line["count"], line["omitted"]) == (2, 0)
    assert {m["pid"]: m["name"] for m in line["members"]} == {
        root.pid: "actor",
        left.pid: "left-one",
    }
    assert {m["start"] for m in line["members"]} == {root.identity.start, left.identity.start}
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert not run.all("list")


def boot_ns(after_ms: int) -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + after_ms * 1_000_000


def test_a_deadline_stops_the_run_as_an_expired_lease(scene: Scene) -> None:
    run = scene.run("root term=clean:50:5", control=True)
    root = scene.member("root")
    due = boot_ns(300)
    run.command(cmd="deadline", boottime_ns=due)
    run.ends(code=5)
    assert run.event("stop", trigger="lease-expired")["boottime_ns"] >= due
    assert "cleaned" in root.notes


def test_a_later_deadline_replaces_it_and_zero_takes_it_away(scene: Scene) -> None:
    run = scene.run("root", control=True)
    root = scene.member("root")
    run.command(cmd="deadline", boottime_ns=boot_ns(200))
    run.command(cmd="deadline", boottime_ns=boot_ns(60_000))
    run.hub.quiet(lambda: run.all("stop"), 0.4, "a stop at the replaced deadline")
    run.command(cmd="deadline", boottime_ns=boot_ns(200))
    run.command(cmd="deadline", boottime_ns=0)
    run.hub.quiet(lambda: run.all("stop"), 0.4, "a stop at the deadline taken away")
    assert root.alive()
    run.command(cmd="deadline", boottime_ns=1)
    run.wait()
    run.nobody_left()
    run.event("stop", trigger="lease-expired")


RUBBISH = [
    b"\n", b"hello\n", b"{}\n", b"[]\n", b'{"cmd":"dance"}\n', b'{"cmd":7}\n', b'{"cmd":"stop"\n',
    b'{"cmd":"stop","reason":"because"}\n', b'{"cmd":"stop","grace_ms":-1}\n',
    b'{"cmd":"stop","grace_ms":99999999999999999999}\n', b'{"cmd":"signal","name":"KILL"}\n',
    b'{"cmd":"signal","name":"TERM"}\n', b'{"cmd":"signal","name":"STOP"}\n',
    b'{"cmd":"signal","name":"9"}\n', b'{"cmd":"signal"}\n', b'{"cmd":"deadline"}\n',
    b'{"cmd":"deadline","boottime_ns":-5}\n', b'{"cmd":"stop","by":{"a":1}}\n',
    b'{"cmd":"stop"} {"cmd":"stop"}\n', b"\x00\xff\xfe\x80\n", b'{"cmd":"stop\x00"}\n',
    b'{"cmd":"\\ud800"}\n', b'{"cmd":"\\u12"}\n', b'{"cmd":"st\\', b'op"}\n',
    b'{"cmd":"' + b"x" * 4000 + b'"}\n', b"y" * 5000 + b"\n", b"z" * 20000, b"\n", b'"' * 4095 + b"\n",
]  # fmt: skip


def test_rubbish_is_answered_and_changes_nothing(scene: Scene) -> None:
    run = scene.run("root", control=True)
    root = scene.member("root")
    for line in RUBBISH:
        run.send(line)
    # Lines that came before are answered before this one is.
    run.command(cmd="list")
    run.answer("list")
    assert len([e for e in run.control.events if e["event"] == "error"]) >= 20
    messages = [e["message"] for e in run.control.events if e["event"] == "error"]
    assert all(messages)
    assert sum("4096" in message for message in messages) == 2, (
        "once for each line that is too long"
    )
    assert root.alive()
    assert not run.all("stop")
    assert not run.all("error"), "the record has facts of the run only"
    run.command(cmd="stop")
    run.wait()
    run.nobody_left()


def test_random_bytes(scene: Scene) -> None:
    run = scene.run("root", control=True)
    root = scene.member("root")
    for _ in range(20):
        run.send(os.urandom(900).replace(b'"cmd"', b"'cmd'") + b"\n")
        scene.hub.round(0)
    run.command(cmd="list")
    run.answer("list")
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_commands_in_pieces_and_many_at_once(scene: Scene) -> None:
    run = scene.run("root note=USR2", control=True)
    root = scene.member("root")
    for byte in json.dumps({"cmd": "signal", "name": "USR2"}).encode() + b"\n":
        run.send(bytes([byte]))
    scene.until(lambda: root.arrivals(signal.SIGUSR2), "USR2")
    run.send(b'{"cmd":"list"}\n' * 50)
    scene.until(
        lambda: len([e for e in run.control.events if e["event"] == "list"]) == 50, "50 answers"
    )
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_peer_that_never_reads_delays_no_stop(scene: Scene) -> None:
    run = scene.run("root note=TERM [daemon left ignore ]", control=True)
    scene.member("root")
    run.stop_reading()
    # Each answer is some hundred bytes: every buffer on the way is full long before the last.
    run.send(b'{"cmd":"list"}\n' * 20000)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM, bound=20)
    killed = run.event("signalled", signal="KILL")
    assert between_ms(run.event("stop"), killed) < 3000
    assert not run.all("takeover"), "the stop found its way through the flood"
    assert run.events[-1]["event"] == "tree-gone"


def test_a_peer_that_never_reads_costs_the_record_nothing(scene: Scene) -> None:
    # A buffer smaller than an answer, so that one is cut in the middle.
    run = scene.run(scene.program("crowd", "200"), "--leftovers", "wait", control=16384)
    root = scene.member("root")
    run.stop_reading()
    # Each answer names 200 members: these alone are more than any buffer holds.
    run.send(b'{"cmd":"list"}\n' * 60)
    # And then more facts than the lines' own memory holds.
    for n in range(12):
        run.send(b'{"cmd":"signal","name":"CHLD"}\n' * 100)
        run.hub.look(lambda n=n: len(run.all("signalled", signal="CHLD")) >= n * 100, "facts")
    run.hub.look(lambda: len(run.all("signalled", signal="CHLD")) == 1200, "all facts")
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert not run.all("dropped", where="ring")
    assert not run.all("dropped", where="record")
    assert run.all("stop")


def test_answers_leave_room_for_the_facts_of_the_record(scene: Scene) -> None:
    shell = '"$0" 300 & exec "$1" agent note=USR1'
    programs = [*scene.program("crowd"), *scene.program("actor")]
    run = scene.run(["sh", "-c", shell, *programs], control=True)
    agent = scene.member("agent")
    scene.member("root")  # the crowd is complete
    front, keeper = run.front, run.keeper
    # All commands lie before the keeper when it wakes, and nobody takes its lines away.
    holder = hold(scene, run)
    run.send(b'{"cmd":"list"}\n' * 9 + b'{"cmd":"signal","name":"USR1"}\n' * 55)
    run.hub.look(run.all_sent, "the front has passed them on")
    front.signal(SIGSTOP)
    front.wait_state("T")
    holder.dismiss()
    scene.until(lambda: agent.arrivals(SIGUSR1), "the answers lie before the facts")
    keeper.wait_state("S")
    front.signal(SIGCONT)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert len(run.all("signalled", signal="USR1")) == 55


def test_acknowledge_without_an_observation_is_an_error(scene: Scene) -> None:
    run = scene.run("root", control=True)
    scene.member("root")
    run.command(cmd="acknowledge")
    assert run.answer("error")["message"]
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_commands_sent_before_the_root_exists_count(scene: Scene) -> None:
    run = scene.run("root ignore", control=True)
    run.command(cmd="stop", grace_ms=0)
    run.wait()
    run.nobody_left()
    run.event("stop", trigger="requested")
