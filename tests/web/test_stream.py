"""What pages are told: everything once, then what changes; nobody is waited for."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laying import lay, note
from site_of_test import Run, Server, gone

from lastout import sole_writer
from lastout.web.board import KINDS, Board
from lastout.web.following import RECENT, Following

STUBBORN = ("sh", "-c", "trap '' TERM; setsid sleep 60 & while :; do sleep 60; done")


def test_a_run_shows_up_and_its_end_is_told(server: Server, run: Callable[..., Run]) -> None:
    stream = server.stream()
    name, hello = stream.next()
    assert (name, stream.status) == ("hello", 200)
    assert hello["state"]
    one = run("sleep", "60")
    row = stream.row(one.id, lambda row: row["state"] == "running")
    assert row["command"] == "sleep 60"
    assert row["root"] == one.started["root"]["pid"]
    one.end()
    row = stream.row(one.id, lambda row: row["state"] == "ended")
    assert (row["signal"], row["stop"]["trigger"], row["stop"]["proven"]) == (
        "TERM",
        "signal",
        True,
    )
    stream.close()


def test_the_ladder_is_told_as_it_happens(server: Server, run: Callable[..., Run]) -> None:
    one = run(*STUBBORN, options=("--budget", "codex-sdk"))
    stream = server.stream()
    one.process.terminate()
    row = stream.row(one.id, lambda row: row["stop"])
    assert row["stop"]["stage"] == "term"
    assert row["stop"]["graces"][1] == 1200
    row = stream.row(one.id, lambda row: row["state"] == "ended")
    assert row["stop"]["ended"] >= 1200
    assert [mark["what"] for mark in row["stop"]["marks"]].count("SIGKILL") == 1
    stream.close()


def test_what_ran_before_the_server_did_is_there(
    serve: Callable[..., Server], run: Callable[..., Run]
) -> None:
    live, over = run("sleep", "60"), run("true")
    over.process.wait()
    stream = serve().stream()
    rows = {row["id"]: row for row in stream.until(lambda data: data["ready"])["runs"]}
    assert rows[live.id]["state"] == "running"
    assert rows[over.id]["state"] in ("ended", "running")
    stream.close()


def test_supervisors_that_are_killed_do_not_pass_for_running(
    server: Server, run: Callable[..., Run]
) -> None:
    """Nobody writes a last word then: their pidfds tell."""
    one = run("sleep", "60")
    stream = server.stream()
    stream.row(one.id, lambda row: row["state"] == "running")
    started = one.started
    people = [started[name]["pid"] for name in ("front", "keeper")]
    for pid in people:
        os.kill(pid, signal.SIGSTOP)  # neither sees the other's end
    for pid in people:
        os.kill(pid, signal.SIGKILL)
    stream.row(one.id, lambda row: row["state"] == "lost")
    one.process.wait()
    list(gone([started["root"]["pid"]]))
    stream.close()


def test_a_page_that_comes_back_gets_what_it_missed(
    server: Server, run: Callable[..., Run]
) -> None:
    first, other = run("sleep", "60"), run("sleep", "61")
    stream = server.stream()
    stream.until(lambda data: data["ready"] and len(data["runs"]) == 2)
    last = stream.last
    stream.close()
    first.end()
    again = server.stream(last=last)
    told = again.until(
        lambda data: any(row["state"] == "ended" for row in data["runs"]), names=("some",)
    )
    assert {row["id"] for row in told["runs"]} == {first.id}
    again.close()
    nonsense = server.stream(last="0123456789abcdef:3")
    told = nonsense.until(lambda data: True, names=("all",))
    assert {row["id"] for row in told["runs"]} == {first.id, other.id}
    nonsense.close()


def test_a_reader_that_does_not_read_holds_up_nobody(
    server: Server, state: Path, run: Callable[..., Run]
) -> None:
    """Its own connection fills up and stays behind; it costs no memory, and skips when it reads."""
    one = run("sleep", "60")
    many = lay(state, one, 300)
    slow, quick = server.stream(buffer=64 << 10), server.stream()
    quick.until(lambda data: data["ready"] and len(data["runs"]) >= 300)
    before = memory(server)
    for turn in range(40):
        for path in many:
            note(path, turn)
        quick.until(
            lambda data, turn=turn: any(row["commands"] == turn + 1 for row in data["runs"])
        )
    assert memory(server) - before < 16 << 20
    seen: dict[str, int] = {}
    while not (len(seen) >= 300 and set(seen.values()) == {40}):
        name, data = slow.next()
        if name in ("all", "some"):
            seen |= {row["id"]: row["commands"] for row in data["runs"] if row["id"] != one.id}
    assert slow.count < quick.count / 2
    slow.close()
    quick.close()


def test_it_ends_at_once_with_streams_open(server: Server, run: Callable[..., Run]) -> None:
    run("sleep", "60")
    streams = [server.stream() for _ in range(20)]
    stuck = socket.create_connection(("127.0.0.1", server.port))
    assert server.end(signal.SIGINT) < 2
    assert server.process.returncode == 0
    for stream in streams:
        try:
            while True:
                stream.next()
        except (EOFError, ConnectionError):
            pass
        stream.close()
    stuck.close()


@pytest.mark.quiet
def test_it_sleeps_while_nothing_happens(server: Server, run: Callable[..., Run]) -> None:
    run("sleep", "60")
    stream = server.stream()
    stream.until(lambda data: data["ready"] and data["runs"])
    stream.close()
    assert server.ask("GET", "/")[0] == 200
    before = wakeups(server)
    select.poll().poll(2000)
    assert wakeups(server) - before <= 6


def test_a_lease_is_told_with_its_epoch(server: Server, run: Callable[..., Run]) -> None:
    stream = server.stream()
    one = run("sleep", "60", options=("--key", "k\u202e<b>"))
    told = stream.until(lambda data: data["leases"])["leases"][0]
    assert (told["key"], told["epoch"], told["run"]) == ("k\\u202e<b>", 1, one.id)
    history = server.get("/api/lease?key=k%E2%80%AE%3Cb%3E")
    assert history[-1]["event"] == "reserved"
    stream.close()


def test_the_tree_of_an_open_run_is_looked_at(server: Server, run: Callable[..., Run]) -> None:
    one = run("sh", "-c", "setsid sleep 60 & sleep 61")
    stream = server.stream(f"/api/events?run={one.id}")
    told = stream.until(
        lambda data: data["tree"] and len(named(data, "sleep")) == 2, names=("watched",)
    )
    (root,) = (m for m in told["tree"]["members"] if m["role"] == "root")
    assert (root["name"], root["session"]) == ("sh", root["pid"])
    sleeps = named(told, "sleep")
    assert sorted(m["session"] == m["pid"] for m in sleeps) == [False, True]
    stream.close()


def test_a_record_far_away_that_a_lease_names_is_followed(
    server: Server, tmp_path: Path, state: Path, run: Callable[..., Run]
) -> None:
    """Also when it comes later than the lease."""
    one = run("sleep", "60")
    path = tmp_path / "elsewhere" / "mine.jsonl"
    path.parent.mkdir()
    stream = server.stream()
    grant = sole_writer.acquire("k", state=state, record=path)
    stream.until(lambda data: data["leases"])
    path.write_text(one.record.read_text().replace(one.id, grant.run))
    row = stream.row(grant.run, lambda row: row["state"] == "running")
    assert row["command"] == "sleep 60"
    second = sole_writer.acquire("k2", state=state, record=path)
    with path.open("a") as file:
        file.write(one.record.read_text().replace(one.id, second.run).replace('"60"', '"61"'))
    row = stream.row(second.run, lambda row: row["state"] == "running")
    assert row["command"] == "sleep 61", "of the run that was appended, under its own name"
    stream.close()


def test_more_runs_end_at_once_than_stay_on_the_page(state: Path, run: Callable[..., Run]) -> None:
    one = run("true")
    one.process.wait()
    text = settled(one.record)
    paths = []
    for number in range(RECENT + 50):
        path = one.record.with_name(f"{one.id[:16]}{number:06d}.jsonl")
        path.write_bytes(text.replace(one.id.encode(), path.stem.encode()))
        paths.append(str(path))

    async def follow() -> Board:
        board = Board()
        following = Following(str(state), board, lambda run: None)
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        for _ in range(2):
            for each in paths:
                following.touch(each)
            await following.caught_up()
        assert failures == []
        return board

    assert len(asyncio.run(follow()).names("runs")) == RECENT


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 3)),
            st.tuples(st.just("remove"), st.sampled_from(KINDS), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("read"), st.just(""), st.integers(0, 2), st.just(0)),
        ),
        max_size=60,
    )
)
def test_every_reader_ends_with_what_there_is(steps: list[tuple[str, str, int, int]]) -> None:
    """However rarely it reads."""
    import lastout.web.board as module

    before, module._MOST_GONE = module._MOST_GONE, 3
    try:
        board = Board()
        truth: dict[tuple[str, str], int] = {}
        readers: list[tuple[int | None, dict[tuple[str, str], int]]] = [
            (None, {}) for _ in range(3)
        ]

        def read(number: int) -> None:
            version, rows = readers[number]
            data, whole = board.since(version)
            told: dict[str, Any] = json.loads(data)
            if whole:
                rows = {}
            for kind in KINDS:
                rows |= {(kind, row["id"]): row["n"] for row in told[kind]}
            for kind, name in told["gone"]:
                rows.pop((kind, name), None)
            readers[number] = (board.version, rows)

        for what, kind, name, value in steps:
            if what == "put":
                board.put(kind, str(name), {"id": str(name), "n": value})
                truth[kind, str(name)] = value
            elif what == "remove":
                board.remove(kind, str(name))
                truth.pop((kind, str(name)), None)
            else:
                read(name)
        for number in range(3):
            read(number)
            assert readers[number][1] == truth
    finally:
        module._MOST_GONE = before


# ---- what the tests above stand on --------------------------------------------------------------


def named(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [member for member in data["tree"]["members"] if member.get("name") == name]


def settled(record: Path) -> bytes:
    from lastout.evidence.settled import settled

    assert settled(record).final is not None
    return record.read_bytes()


def memory(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def wakeups(server: Server) -> int:
    total = 0
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        status = (task / "status").read_text()
        total += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total
