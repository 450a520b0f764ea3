"""The lines that tracing adds to a record: what the kernel told a privileged onlooker."""

from __future__ import annotations

from lastout.evidence.line import Event, Identity

__all__ = [
    "OomCounters",
    "TraceBegan",
    "TraceEnded",
    "TracedExit",
    "TracedOom",
    "TracedProcess",
    "TracedSignal",
    "TracerEvent",
]


class TracerEvent(Event, frozen=True, kw_only=True):
    """A line of the kernel's tracing (`from` is `tracer`); `at_ns` is the event's own boot time."""


class TraceBegan(TracerEvent, frozen=True, kw_only=True, tag="trace-began"):
    """Tracing of this run began, by `tracefs` or `proc-connector`.

    `covers` is `whole-run` when it began before the root was executed, else `from-here`.
    """

    how: str
    covers: str = ""
    sees_senders: bool = False
    sees_exit_codes: bool = False


class TracedProcess(Identity, frozen=True):
    """A process as it was named at the event; what could not be read any more is empty."""

    name: str = ""
    exe: str | None = None
    uid: int | None = None


class TracedSignal(TracerEvent, frozen=True, kw_only=True, tag="traced-signal"):
    """The kernel generated a signal for a process of this run.

    `who` is `root`, `front`, `keeper` or `member`; `by` is `process`, `kernel` or `self`;
    `result` is the kernel's: `delivered`, `ignored`, `already-pending`, `overflow`, `lost-info`.
    """

    at_ns: int
    signal: str
    target: TracedProcess
    who: str = "member"
    by: str = "process"
    sender: TracedProcess | None = None
    si_code: int = 0
    result: str = ""


class TracedOom(TracerEvent, frozen=True, kw_only=True, tag="traced-oom"):
    """The kernel's OOM killer chose a process of this run."""

    at_ns: int
    victim: TracedProcess
    who: str = "member"
    anon_rss_kib: int | None = None


class TracedExit(TracerEvent, frozen=True, kw_only=True, tag="traced-exit"):
    """A process of this run ended, with the exit code that the kernel told its tracer."""

    at_ns: int
    process: TracedProcess
    who: str = "member"
    ppid: int = 0
    status: int | None = None
    code: int | None = None
    signal: str | None = None
    core: bool = False


class OomCounters(TracerEvent, frozen=True, kw_only=True, tag="oom-counters"):
    """The kernel's OOM-kill counters at the run's `begin` or `end`.

    `machine` is from /proc/vmstat, `cgroup_kills` from the memory cgroup of the root.
    """

    when: str
    machine: int | None = None
    cgroup: str | None = None
    cgroup_kills: int | None = None


class TraceEnded(TracerEvent, frozen=True, kw_only=True, tag="trace-ended"):
    """Tracing of this run ended.

    `lost` events were reported lost by the kernel, `omitted` lines were not written, nor `repeated`
    ones: signals alike between the first two and the last. `cpu_us` is the processor time of the
    tracer since it began.
    """

    why: str = ""
    lost: int = 0
    omitted: int = 0
    repeated: int = 0
    signals: int = 0
    forks: int = 0
    execs: int = 0
    exits: int = 0
    cpu_us: int | None = None
