"""What others reported, what tracing saw, and what is missing from a record."""

from __future__ import annotations

from lastout.evidence.words.parts import (
    Facts,
    always,
    code,
    ended,
    number,
    process,
    says,
    shell,
    signal_name,
    visible,
)

REMINDER = (
    "A forced end can skip `finally` blocks and exit handlers and leave locks or children behind."
)


# What is missing from the record.


@says("dropped")
def _dropped(f: Facts) -> str:
    place = {"record": "on the way to the file", "control": "on the way to the owner"}.get(
        f["where"], "inside the supervisor"
    )
    lines = number(f["lines"], "line")
    return f"{lines} of this record were lost {place}; what they said is not known."


@says("lines-missing")
def _lines_missing(f: Facts) -> str:
    first, last = f["first"], f["last"]
    which = f"line {first} is" if first == last else f"lines {first} to {last} are"
    return (
        f"The {visible(f['source'])}'s {which} not in this record: answers to somebody on the "
        "control socket, or lost; what they said is not known."
    )


@says("other-runs")
def _other_runs(f: Facts) -> str:
    names = ", ".join(code(visible(run)) for run in f["runs"])
    more = ", …" if f["count"] > len(f["runs"]) else ""
    return f"The same file has the lines of {number(f['count'], 'other run')}: {names}{more}."


@says("unreadable")
def _unreadable(f: Facts) -> str:
    what = "is cut off" if f["kind"] == "torn" else "is no line of a record"
    where = f"first at byte {f['offset']}"
    return f"{number(f['count'], 'part')} of the file {what} ({where}) and was skipped."


@says("misplaced-line")
def _misplaced(f: Facts) -> str:
    return (
        f"Line {f['seq']} of {visible(f['source'])} is not its writer's to write and was not used."
    )


@says("unknown-line")
def _unknown(f: Facts) -> str:
    return f"A line of the kind {code(visible(f['name']))} is of another version and was not read."


# What others reported.


@says("closed")
def _closed(f: Facts) -> str:
    return f"The owner closed the run with the verdict {code(visible(f['verdict']))}."


@says("forced")
def _forced(f: Facts) -> str:
    if not f["verdict"]:
        if f["signalled"] is None:
            return "The stop leaves out the graces: SIGKILL for the tree, past the supervisor."
        if not (count := f["signalled"]):
            return "Whom SIGKILL past the supervisor reached, if anybody, is not reported."
        return f"SIGKILL was sent past the supervisor, to {count} process{'es' * (count != 1)}."
    return f"A forced step was taken; it reported {code(visible(f['verdict']))}."


@says("note")
def _note(f: Facts) -> str:
    return f"The owner noted: {visible(f['text'])}"


@says("turn")
def _turn(f: Facts) -> str:
    status = code(visible(f["status"])) if f["status"] else "no status"
    text = f"The agent reported the end of a turn with {status}: {number(f['commands'], 'command')}"
    parts = [f"{f['failed']} failed"] if f["failed"] else []
    if f["unfinished"]:
        parts.append(f"{f['unfinished']} started and not reported complete")
    return f"{text}{', ' if parts else ''}{', '.join(parts)}."


@says("command")
def _command(f: Facts) -> str:
    code = "no exit code"
    if f["code"] is not None:
        code = f"exit code {f['code']}" + (" (in its text)" if f["code_from"] == "text" else "")
    status = f", {visible(f['status'])}" if f["status"] else ""
    late = " After its turn had ended, the" if f["after_turn"] else " The"
    cause = "; cause not reported" if f["cause_open"] else ""
    return f"{late.strip()} agent reported of {shell(f)}: {code}{status}{cause}."


@says("command-background")
def _command_background(f: Facts) -> str:
    return f"The agent reported that it went on while {shell(f)} was running."


@says("command-unfinished")
def _command_unfinished(f: Facts) -> str:
    return f"{shell(f)} was started; its end was never reported, cause not reported."


@says("native-timeout")
def _native_timeout(f: Facts) -> str:
    said = ", ".join(f"{name} {visible(str(value))}" for name, value in f["said"].items())
    return f"The agent reported a deadline of its own for {shell(f)}: {said}."


@says("cause-reminder")
def _cause_reminder(f: Facts) -> str:
    return f"For {number(f['count'], 'command')} no cause was reported. {REMINDER}"


# What tracing saw.


@says("traced-signal")
def _traced_signal(f: Facts) -> str:
    target = {"root": "the root", "front": "lastout's front", "keeper": "lastout's keeper"}.get(
        f["who"], process(f["target"])
    )
    source = {"kernel": "by the kernel", "self": "by that process itself"}.get(f["by"])
    if source is None:
        source = f"by {process(f['sender'])}" if f["sender"] else "by a process without a name"
    result = "" if f["result"] in ("delivered", "") else f" ({visible(f['result'])})"
    return f"{signal_name(f['signal'])} for {target} was generated {source}{result}."


@says("traced-oom")
def _traced_oom(f: Facts) -> str:
    who = "the root" if f["who"] == "root" else process(f["victim"])
    return f"The kernel's OOM killer chose {who}."


@says("traced-exit")
def _traced_exit(f: Facts) -> str:
    return f"{process(f['process'])} {ended(f)}."


@says("trace-began")
def _trace_began(f: Facts) -> str:
    how = "the kernel's trace points" if f["how"] == "tracefs" else "the process connector"
    when = "the whole run" if f["covers"] == "whole-run" else "the run from here on"
    sees = ["senders of signals"] if f["senders"] else []
    sees += ["exit codes"] if f["codes"] else []
    return (
        f"Tracing by {how} covers {when}, with {' and '.join(sees) or 'neither senders nor codes'}."
    )


@says("trace-ended")
def _trace_ended(f: Facts) -> str:
    parts = [f"{number(f['lost'], 'event')} lost" if f["lost"] else ""]
    parts.append(f"{number(f['omitted'], 'line')} left out" if f["omitted"] else "")
    parts.append(visible(f["why"]))
    said = ", ".join(part for part in parts if part)
    return f"Tracing ended{': ' + said if said else ', with nothing lost'}."


always("trace-unfinished", "The tracing of this run has no end: what it missed is not known.")
