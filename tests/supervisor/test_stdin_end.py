"""The end of stdin: seen without touching a byte, a trigger or not, and never a hang."""

from __future__ import annotations

import os
import pty
import select
import socket
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from harness import Scene
from harness.run import Run, between_ms


def test_a_root_that_exits_on_it_is_not_delayed_and_gets_no_signal(scene: Scene) -> None:
    run = scene.run("root stdin=exit:5 note=TERM", graces=(10.0, 30.0, 5.0))
    root = scene.member("root")
    run.close_stdin()
    run.ends(code=5)
    # A root that is faster than the supervisor's look at stdin leaves nothing to stop.
    assert [stop["trigger"] for stop in run.all("stop")] in ([], ["stdin-ended"])
    assert not run.all("signalled")
    assert root.arrivals(SIGTERM) == 0
    assert run.event("tree-gone")["stop_ms"] < 5000


def test_default_graces_are_kept_to_the_millisecond(scene: Scene) -> None:
    run = scene.run("root ignore stdin=note [daemon escapee ignore ]", graces=None)
    root = scene.member("root")
    run.close_stdin()
    run.ends(signal=SIGKILL)
    stop = run.event("stop", trigger="stdin-ended")
    asked = run.event("signalled", signal="TERM", target="root-group")
    killed = run.event("signalled", signal="KILL")
    assert between_ms(stop, asked) >= 1000
    assert between_ms(asked, killed) >= 3000
    assert "stdin-end" in root.notes


def test_unread_data_does_not_hide_the_end(scene: Scene) -> None:
    run = scene.run("root term=exit:0")
    scene.member("root")
    os.write(run.stdin, b"never read\n" * 500)
    run.close_stdin()
    run.ends(code=0)
    run.event("stop", trigger="stdin-ended")


def test_not_a_byte_is_taken_from_the_root(scene: Scene) -> None:
    run = scene.run(["sh", "-c", "exec cat"])
    data = bytes(range(256)) * 300
    view = memoryview(data)
    while view:
        view = view[os.write(run.stdin, view) :]
    run.close_stdin()
    run.ends(code=0)
    assert run.output.read_bytes() == data


def test_the_owner_gets_epipe_once_the_root_is_gone(scene: Scene) -> None:
    run = scene.run("root [daemon left null ]", "--leftovers", "wait")
    root, left = scene.member("root"), scene.member("left")
    root.tell("exit 0")
    run.event("root-exited")
    poll = select.poll()
    poll.register(run.stdin, select.POLLERR)
    assert poll.poll(30_000), "every reader has gone"
    with pytest.raises(BrokenPipeError):
        os.write(run.stdin, b"x")
    left.tell("exit 0")
    run.ends(code=0)


@pytest.mark.parametrize("how", ["close", "shutdown"])
def test_a_socket_pair_ends_by_close_and_by_shutdown(scene: Scene, how: str) -> None:
    mine, theirs = socket.socketpair()
    with mine:
        run = scene.run("root stdin=note term=exit:4", stdin=theirs.fileno())
        theirs.close()
        scene.member("root")
        if how == "close":
            mine.close()
        else:
            mine.shutdown(socket.SHUT_WR)
        run.ends(code=4)
        run.event("stop", trigger="stdin-ended")


def test_shutdown_of_a_socket_that_the_root_does_not_read(scene: Scene) -> None:
    mine, theirs = socket.socketpair()
    with mine:
        run = scene.run("root term=exit:0", stdin=theirs.fileno())
        theirs.close()
        scene.member("root")
        mine.shutdown(socket.SHUT_WR)
        run.ends(code=0)
        run.event("stop", trigger="stdin-ended")


def test_a_terminal_that_hangs_up(scene: Scene) -> None:
    master, slave = pty.openpty()
    run = scene.run("root ignore=HUP term=exit:0", stdin=slave)
    os.close(slave)
    scene.member("root")
    os.close(master)
    run.ends(code=0)
    run.event("stop", trigger="stdin-ended")


def test_a_terminal_that_has_hung_up_before_the_start(scene: Scene) -> None:
    master, slave = pty.openpty()
    os.close(master)
    run = scene.run("root ignore=HUP term=exit:0", stdin=slave)
    os.close(slave)
    run.ends(code=0)
    run.event("stop", trigger="stdin-ended")


def no_stop(scene: Scene, run: Run) -> None:
    root = scene.member("root")
    run.hub.quiet(lambda: run.all("stop"), 0.3, "a stop")
    assert root.alive()
    root.tell("exit 2")
    run.ends(code=2)


def test_a_fifo_may_get_a_new_writer_and_never_triggers(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR)
    read_end = os.open(path, os.O_RDONLY)
    run = scene.run("root", stdin=read_end)
    os.close(read_end)
    scene.member("root")
    os.close(keep)
    no_stop(scene, run)


@pytest.mark.parametrize("what", ["null", "file"])
def test_null_and_files_never_end(scene: Scene, what: str, tmp_path: Path) -> None:
    path = Path("/dev/null") if what == "null" else tmp_path / "input"
    if what == "file":
        path.write_text("line\n")
    fd = os.open(path, os.O_RDONLY)
    run = scene.run("root", stdin=fd)
    os.close(fd)
    no_stop(scene, run)


def test_ignored_where_input_is_just_input(scene: Scene) -> None:
    run = scene.run("root", "--stdin-end", "ignore")
    scene.member("root")
    run.close_stdin()
    no_stop(scene, run)


def test_ended_before_the_start(scene: Scene) -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    run = scene.run("root stdin=exit:3", stdin=read_end)
    os.close(read_end)
    run.ends(code=3)


# ---- other programs' starts -----------------------------------------------------------------


def test_a_pipeline_finishes_its_work_after_the_input_has_ended(scene: Scene) -> None:
    run = scene.run(
        ["sh", "-c", "sort; sleep 0.6; echo done"], "--stdin-end", "ignore",
        via=["sh", "-c", 'printf "b\\na\\n" | "$@"', "sh"],
    )  # fmt: skip
    run.ends(code=0)
    assert run.output_text() == "a\nb\ndone\n"


def test_below_xargs(scene: Scene) -> None:
    run = scene.run(
        ["echo", "got"],
        via=["sh", "-c", 'printf "a\\nb\\n" | xargs -n 1 "$@"', "sh"],
    )
    run.ends(code=0)
    assert run.output_text() == "got a\ngot b\n"


def test_the_jobserver_of_make_reaches_the_root(scene: Scene, tmp_path: Path) -> None:
    makefile = tmp_path / "outer.mk"
    inner = tmp_path / "inner.mk"
    inner.write_text("all: a b\na b:\n\t@echo $@\n")
    makefile.write_text(f"all:\n\t+@$(RUN) $(MAKE) -s -f {inner}\n")
    run = scene.run(
        [],
        "--stdin-end", "ignore",
        via=["sh", "-c", 'RUN="$*" exec make -s -j 2 -f outer.mk', "sh"],
    )  # fmt: skip
    run.ends(code=0)
    assert sorted(run.output_text().split()) == ["a", "b"]
    assert "jobserver" not in run.error_text(), "descriptors were passed on"


def test_process_substitution_reaches_the_root(scene: Scene) -> None:
    run = scene.run(["cat"], via=["bash", "-c", '"$@" <(echo one) <(echo two)', "bash"])
    run.ends(code=0)
    assert run.output_text() == "one\ntwo\n"


def test_children_of_a_shell_that_becomes_the_supervisor_are_left_alone(scene: Scene) -> None:
    # exec in a shell with <(...): the front has children that are not ours.
    run = scene.run(["cat"], via=["bash", "-c", 'exec "$@" <(echo one)', "bash"])
    run.ends(code=0)
    assert run.output_text() == "one\n"
