"""Output is the root's own: nothing is lost, nothing hangs, no memory grows, no end is mistaken."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM

from harness import Scene
from harness.run import Run


class Reader(threading.Thread):
    """Reads a descriptor to its end, in bounded memory."""

    def __init__(self, fd: int) -> None:
        super().__init__(daemon=True)
        self.fd, self.size, self.tail, self.digest = fd, 0, b"", hashlib.blake2b()
        self.seen: Callable[[], None] = lambda: None
        self.start()

    def run(self) -> None:
        while data := os.read(self.fd, 1 << 20):
            self.size += len(data)
            self.tail = (self.tail + data)[-64:]
            self.digest.update(data)
            self.seen()
        os.close(self.fd)

    def finish(self) -> None:
        self.join(60)
        assert not self.is_alive(), "the end of the output"


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def piped(scene: Scene, name: str, *arguments: str) -> tuple[Run, Reader]:
    read_end, write_end = os.pipe()
    reader = Reader(read_end)
    run = scene.run(scene.program(name, *arguments), stdout=write_end)
    os.close(write_end)
    return run, reader


def test_200_megabytes_without_a_newline(scene: Scene) -> None:
    size = 200 << 20
    run, reader = piped(scene, "output", "flood", str(size))
    front, keeper = run.started["front"]["pid"], run.started["keeper"]["pid"]
    largest = max(rss_kib(front), rss_kib(keeper)) if not run.process.gone else 0
    run.ends(code=7)
    reader.finish()
    assert reader.size == size + len(b"\nTAIL-MARKER\n")
    assert reader.tail.endswith(b"\nTAIL-MARKER\n")
    assert largest < 8192, "kibibytes: the supervisor relays nothing"


def test_a_stop_during_the_flood_keeps_its_times(scene: Scene) -> None:
    run, reader = piped(scene, "output", "flood", str(1 << 40))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    reader.finish()


def test_nobody_reads_the_output_and_the_stop_still_works(scene: Scene) -> None:
    read_end, write_end = os.pipe()
    run = scene.run(scene.program("output", "flood", str(1 << 30)), stdout=write_end)
    os.close(write_end)
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    os.close(read_end)


def test_stderr_filled_before_stdout(scene: Scene) -> None:
    out, err = os.pipe(), os.pipe()
    readers = [Reader(out[0]), Reader(err[0])]
    run = scene.run(scene.program("output", "stderr"), stdout=out[1], stderr=err[1])
    os.close(out[1])
    os.close(err[1])
    run.close_stdin()
    run.ends(code=0)
    for reader in readers:
        reader.finish()
    assert (readers[0].tail, readers[1].size) == (b"answer\n", 262144)


def test_exit_right_after_a_large_last_write(scene: Scene) -> None:
    run, reader = piped(scene, "output", "last")
    run.ends(code=3)
    reader.finish()
    assert reader.size == 300000 + 10
    assert reader.tail.endswith(b"LAST-LINE\n")


def test_the_end_of_output_is_not_the_end_of_the_root(scene: Scene) -> None:
    out = os.pipe()
    reader = Reader(out[0])
    run = scene.run("root close=0 close=1 close=2", stdout=out[1], stderr=out[1])
    os.close(out[1])
    root = scene.member("root")
    reader.finish()
    run.hub.quiet(lambda: run.all("stop") or run.all("root-exited"), 0.3, "a stop or an exit")
    assert root.alive()
    root.tell("exit 5")
    run.ends(code=5)


def test_the_roots_end_is_told_while_a_leftover_holds_the_output(scene: Scene) -> None:
    out = os.pipe()
    reader = Reader(out[0])
    run = scene.run("root [daemon holder ]", "--leftovers", "wait", stdout=out[1], control=True)
    os.close(out[1])
    holder = scene.member("holder")
    scene.member("root").tell("exit 0")
    assert run.answer("root-exited")["code"] == 0
    assert reader.is_alive()
    assert holder.alive()
    holder.tell("exit 0")
    run.ends(code=0)
    reader.finish()


def test_a_leftover_that_holds_the_output_is_stopped_with_the_rest(scene: Scene) -> None:
    out = os.pipe()
    reader = Reader(out[0])
    run = scene.run("root print=finished [ holder ignore ]", stdout=out[1])
    os.close(out[1])
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    reader.finish()
    assert reader.tail == b"finished\n"


def test_the_supervisor_lets_go_of_output_as_soon_as_the_root_runs(scene: Scene) -> None:
    # The root gives its output up; an end of file must then be seen though the run goes on.
    out, err = os.pipe(), os.pipe()
    readers = [Reader(out[0]), Reader(err[0])]
    run = scene.run("root close=1 close=2", stdout=out[1], stderr=err[1])
    os.close(out[1])
    os.close(err[1])
    root = scene.member("root")
    for reader in readers:
        reader.finish()
    assert root.alive()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_reader_that_goes_away_is_no_concern_of_the_supervisor(scene: Scene) -> None:
    out = os.pipe()
    run = scene.run(scene.program("output", "chatter"), stdout=out[1])
    os.close(out[1])
    root = scene.member("root")
    os.close(out[0])
    root.wait_note("epipe")
    run.hub.quiet(lambda: run.all("stop") or run.process.gone, 0.3, "a stop or an end")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_a_root_that_exits_with_its_input_unread(scene: Scene) -> None:
    run = scene.run("root close=0")
    root = scene.member("root")
    os.set_blocking(run.stdin, False)
    try:
        os.write(run.stdin, b"x" * 4096)
    except BrokenPipeError:
        pass
    root.tell("exit 42")
    run.ends(code=42)
