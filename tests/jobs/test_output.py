"""Output: its beginning and its end are kept, what was dropped is counted, memory is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.jobs import PATIENCE, Gate, Line
from lastout.jobs import Command, Jobs, Output, capture

MEGABYTE = 1 << 20


def test_a_hundred_megabytes(store: Jobs, tmp_path: Path, line: Line, gate: Gate) -> None:
    go = gate()
    script = (
        "printf first; yes 0123456789abcde | head -c 104857600; printf last; "
        f"echo done >{tmp_path}/said; read x <{tmp_path}/go"
    )
    job = store.submit(Command(["sh", "-c", script]))
    assert line() == "done"
    runner = job.status().runner
    assert runner is not None
    status = Path(f"/proc/{runner.pid}/status").read_text()
    most = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM:"))
    go()
    result = job.wait(PATIENCE)
    assert result.code == 0
    assert most < 40 << 10  # KiB, of which the interpreter's shared pages are most
    total = 104857600 + len("firstlast")
    assert result.stdout is not None
    assert result.stdout.total == total
    head, dropped, tail = job.output()
    assert len(head) >= MEGABYTE
    assert head.startswith(b"first0123")
    assert len(tail) >= MEGABYTE
    assert tail.endswith(b"abcde\nlast")
    assert len(head) + dropped + len(tail) == total
    assert (result.stdout.head, result.stdout.tail) == (len(head), len(tail))
    assert result.dropped == dropped >= 97 * MEGABYTE


@pytest.mark.parametrize("size", [0, 1, MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 3 * MEGABYTE + 7])
def test_what_is_kept_of_any_length(tmp_path: Path, size: int) -> None:
    data = bytes(number * 7 % 251 for number in range(65_537)) * (size // 65_537 + 1)
    data = data[:size]
    stream = capture.Capture(str(tmp_path), "stdout")
    for begin in range(0, size, 50_001):
        stream.write(data[begin : begin + 50_001])
    told = stream.close()
    head, dropped, tail = capture.output(str(tmp_path), "stdout")
    assert told == Output(size, len(head), len(tail), dropped)
    assert head == data[: len(head)]
    assert tail == data[size - len(tail) :]
    assert len(head) + dropped + len(tail) == size
    if size <= 3 * MEGABYTE:
        assert dropped == 0
    else:
        assert len(head) >= MEGABYTE <= len(tail)


def test_a_reader_that_is_too_slow_hears_what_it_missed(tmp_path: Path) -> None:
    stream = capture.Capture(str(tmp_path), "stdout")
    reader = capture.Reader(str(tmp_path), "stdout")
    stream.write(b"a" * 1000)
    assert list(reader.more()) == [b"a" * 1000]
    stream.write(b"b" * (5 * MEGABYTE))
    parts = list(reader.more())
    sizes = [part if isinstance(part, int) else len(part) for part in parts]
    assert sum(sizes) == 5 * MEGABYTE
    assert [part for part in parts if isinstance(part, int)] == [3 * MEGABYTE]
    assert list(reader.more()) == []
