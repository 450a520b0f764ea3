"""Random records for the property tests of `why`: likely ones, and any lines in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .records import BY_OWNER, FRONT, KEEPER, OWNER, ROOT, TRACER

Line = dict[str, Any]

signals = st.sampled_from(["KILL", "KILL", "KILL", "TERM", "XCPU", "PIPE"])
identities = st.sampled_from([ROOT, FRONT, KEEPER, OWNER, {"pid": 911, "start": 42}])
members = st.lists(
    st.fixed_dictionaries({"pid": st.integers(2, 9), "name": st.text(max_size=5)}), max_size=3
)
small = st.integers(0, 3)
roles = st.sampled_from(["root", "root", "member", "keeper"])
texts = st.text(max_size=12)


def _fields(**fields: Any) -> st.SearchStrategy[Line]:
    optional = {name: value for name, value in fields.items() if name.startswith("maybe_")}
    required = {name: value for name, value in fields.items() if name not in optional}
    return st.fixed_dictionaries(
        required, optional={name.removeprefix("maybe_"): value for name, value in optional.items()}
    )


EVENTS: dict[str, st.SearchStrategy[Line]] = {
    "started": _fields(
        front=st.just(FRONT),
        keeper=st.just(KEEPER),
        root=st.just(ROOT),
        max_stop_ms=st.just(5500),
        argv=st.lists(texts, max_size=3),
        maybe_owner=st.just(OWNER),
        maybe_key=texts,
        owner_watch=st.sampled_from(["told", "parent", "none"]),
    ),
    "refused": _fields(reason=st.sampled_from(["owner", "lock", "epoch"]), maybe_message=texts),
    "failed": _fields(reason=st.sampled_from(["fork", "exec"]), maybe_message=texts),
    "stop": _fields(
        trigger=st.sampled_from(
            ["owner-died", "peer-lost", "signal", "requested", "timeout", "root-exited", "odd"]
        ),
        maybe_which=st.sampled_from(["owner", "parent", "front", "keeper"]),
        maybe_signal=signals,
        maybe_reason=texts,
        maybe_by=texts,
        maybe_sender=_fields(pid=st.integers(0, 5), maybe_kernel=st.booleans()),
    ),
    "stop-again": _fields(trigger=st.just("requested"), shortened=st.booleans()),
    "signalled": _fields(
        signal=signals,
        target=st.sampled_from(["root", "root-group", "members", "tree"]),
        maybe_result=st.sampled_from(["delivered", "ESRCH", "EPERM"]),
        maybe_count=small,
        maybe_failed=small,
        maybe_root=st.booleans(),
        maybe_forwarded=st.booleans(),
    ),
    "root-exited": st.one_of(
        _fields(pid=st.sampled_from([300, 300, 301]), signal=signals, core=st.booleans()),
        _fields(pid=st.just(300), signal=st.just("KILL")),
        _fields(pid=st.just(300), code=st.sampled_from([0, 1, 124, 137, 143])),
        _fields(pid=st.just(300)),
    ),
    "leftovers": _fields(count=small, members=members),
    "others-stopped": _fields(
        stopped_count=small,
        killed_count=small,
        maybe_remaining_count=small,
        maybe_interrupted=st.sampled_from(["stop", "root-exited"]),
    ),
    "reaped": _fields(pid=st.integers(2, 9), who=st.sampled_from(["root", "leftover"])),
    "takeover": _fields(why=st.sampled_from(["keeper-lost", "kill-overdue", "new"])),
    "tree-gone": _fields(maybe_late=st.booleans(), stopped_count=small, killed_count=small),
    "tree-unproven": _fields(remaining=members, maybe_remaining_count=small),
    "dropped": _fields(lines=small, where=st.sampled_from(["record", "ring"])),
    "prepared": _fields(argv=st.lists(texts, max_size=2)),
    "closed": _fields(verdict=st.sampled_from(["exited", "killed", "unproven"])),
    "command": _fields(
        maybe_item=texts,
        maybe_command=texts,
        phase=st.sampled_from(["completed", "background", "unfinished"]),
        maybe_status=st.sampled_from(["failed", "completed", "is_error true"]),
        maybe_exit_code=st.sampled_from([0, 1, 124, 137, -1]),
        maybe_native_timeout=st.just({"timedOutAfterMs": 500}),
        maybe_after_turn=st.booleans(),
    ),
    "turn": _fields(maybe_status=texts, commands=small, failed=small),
    "forced": _fields(
        verdict=texts,
        maybe_detail=st.sampled_from(
            [
                "damaged",
                {"how": "now"},
                {"how": "now", "signalled_count": 0, "signalled": []},
                {"signalled_count": 1, "signalled": [{**ROOT, "result": "delivered"}]},
                {"signalled_count": 1, "signalled": [{**ROOT, "result": "EPERM"}]},
                {"signalled_count": "x", "signalled": ["x"]},
            ]
        ),
    ),
    "note": _fields(text=texts),
    "trace-began": _fields(
        how=st.just("tracefs"),
        covers=st.sampled_from(["whole-run", "from-here"]),
        sees_senders=st.booleans(),
    ),
    "traced-signal": _fields(
        at_ns=st.integers(0, 12),
        signal=signals,
        target=st.sampled_from([ROOT, ROOT, ROOT, {**ROOT, "pid": 301}, {"pid": 5, "start": 1}]),
        who=roles,
        by=st.sampled_from(["process", "kernel", "self"]),
        maybe_sender=identities,
        result=st.sampled_from(["delivered", "ignored", "already-pending"]),
    ),
    "traced-oom": _fields(at_ns=st.integers(0, 12), victim=identities, who=roles),
    "traced-exit": _fields(at_ns=st.integers(0, 12), process=identities, who=roles),
    "oom-counters": _fields(
        when=st.sampled_from(["begin", "end"]),
        machine=st.one_of(st.none(), small),
        cgroup=st.sampled_from([None, "/a", "/a", "/b"]),
        cgroup_kills=st.one_of(st.none(), small),
    ),
    "trace-ended": _fields(lost=st.sampled_from([0, 0, 0, 2]), maybe_why=st.just("interrupted")),
    "something-new": _fields(maybe_x=small),
}


# The order in which a run's lines come: what belongs together meets far more often this way.
LIKELY = (
    "prepared", "trace-began", "oom-counters", "started", "command", "stop", "signalled",
    "traced-oom", "traced-signal", "takeover", "root-exited", "signalled", "leftovers", "command",
    "tree-gone", "closed", "oom-counters", "trace-ended",
)  # fmt: skip


@st.composite
def _likely(draw: st.DrawFn) -> list[str]:
    leave_out = draw(st.sets(st.integers(0, len(LIKELY) - 1), max_size=9))
    kinds = [kind for place, kind in enumerate(LIKELY) if place not in leave_out]
    if draw(st.booleans()):
        kinds.insert(draw(st.integers(0, len(kinds))), draw(st.sampled_from(sorted(EVENTS))))
    return kinds


_any = st.lists(st.sampled_from(sorted(EVENTS)), min_size=1, max_size=9)


@st.composite
def records(draw: st.DrawFn) -> list[Line]:
    lines = []
    numbers: dict[str, int] = {}
    clock = 0
    likely = draw(st.integers(0, 2)) > 0
    for kind in draw(_likely() if likely else _any):
        right = "tracer" if kind in TRACER else "owner" if kind in BY_OWNER else "keeper"
        odd = draw(st.integers(0, 60 if likely else 9))
        source = right if odd != 7 else draw(st.sampled_from(["front", "owner", "tracer"]))
        skip = 0 if odd != 8 else draw(st.sampled_from([1, 2]))
        numbers[source] = numbers.get(source, 0) + 1 + skip
        clock += draw(st.integers(0, 3))
        lines.append(
            {
                "v": 1,
                "event": kind,
                "run": "r",
                "from": source,
                "seq": numbers[source],
                "boottime_ns": clock,
                "time": "t",
                **draw(EVENTS[kind]),
            }
        )
    return lines if likely or draw(st.booleans()) else draw(st.permutations(lines))
