"""How a run began, how it was stopped, and what was left of it."""

from __future__ import annotations

from lastout.evidence.words.parts import (
    Facts,
    always,
    code,
    command_line,
    ended,
    listed,
    milliseconds,
    number,
    others,
    says,
    signal_name,
    times,
    visible,
    was,
)

# The beginning.


@says("started")
def _started(f: Facts) -> str:
    where = f" in {visible(f['cwd'])}" if f["cwd"] else ""
    return f"{code(command_line(f['argv']))} was started as pid {f['pid']}{where}."


@says("contained")
def _contained(f: Facts) -> str:
    return f"It was given a cgroup of its own, {code(visible(f['cgroup']))}."


@says("prepared")
def _prepared(f: Facts) -> str:
    return f"The owner said that it was about to start {code(command_line(f['argv']))}."


@says("owner")
def _owner(f: Facts) -> str:
    if f["pid"] is None or f["watch"] == "none":
        return "No owner is watched: nobody's death stops this run."
    who = "the owner that was named" if f["watch"] == "told" else "the direct parent"
    return f"Its owner is pid {f['pid']} ({who}), whose death stops it."


@says("key")
def _key(f: Facts) -> str:
    epoch = "" if f["epoch"] is None else f", at epoch {f['epoch']}"
    return f"It was started to write to {code(visible(f['key']))}{epoch}."


@says("not-started")
def _not_started(f: Facts) -> str:
    message = visible(f["message"]).rstrip(".") or f"reason: {f['reason']}"
    return f"Nothing was started: {message}."


always("start-not-known", "Whether anything was started is not reported: the record does not say.")

# The stop.

_TRIGGERS = {
    "owner-hung-up": "the control socket hung up",
    "stdin-ended": "stdin ended",
    "requested": "it was requested",
    "timeout": "the run's timeout was over",
    "lease-expired": "its lease ran out",
    "root-exited": "the root had exited and others of its tree were alive",
}


@says("stop")
def _stop(f: Facts) -> str:
    return f"A stop began, because {_trigger(f)}."


@says("stop-again")
def _stop_again(f: Facts) -> str:
    effect = "shortened the graces" if f["shortened"] else "changed nothing"
    return f"During the stop {_trigger(f)}; that {effect}."


@says("stop-reason")
def _stop_reason(f: Facts) -> str:
    reason = f"the reason {code(visible(f['reason']))}" if f["reason"] else "no reason"
    by = f", in the name of {code(visible(f['by']))}" if f["by"] else ""
    return f"Whoever asked for it gave {reason}{by}."


@says("stop-asked")
def _stop_asked(f: Facts) -> str:
    now = " without graces" if f["now"] else ""
    reason = f", with the reason {code(visible(f['reason']))}" if f["reason"] else ""
    return f"{code(visible(f['by']))} asked for a stop{now}{reason}."


def _trigger(f: Facts) -> str:
    trigger = f["trigger"]
    if trigger == "owner-died":
        return "the direct parent died" if f["which"] == "parent" else "its owner died"
    if trigger == "peer-lost":
        return f"the supervisor's {f['which'] or 'other half'} was lost"
    if trigger == "signal":
        return f"{signal_name(f['signal'])} came to the supervisor{sent_from(f)}"
    return _TRIGGERS.get(trigger, f"of {code(visible(trigger))}")


def sent_from(f: Facts) -> str:
    if f.get("terminal"):
        return " from the terminal or the kernel"
    sender = f.get("sender")
    if not sender:
        return ""
    if sender["pid"] == 0:
        return " from outside this pid namespace"
    # siginfo shows 1 for a sender in a pid namespace below as well.
    also = ", or from a pid namespace below" if sender["pid"] == 1 else ""
    uid = "" if sender["uid"] is None else f" (uid {sender['uid']})"
    return f" from pid {sender['pid']}{uid}{also}"


@says("signalled")
def _signalled(f: Facts) -> str:
    signal, count, failed = signal_name(f["signal"]), f["count"], f["failed"]
    not_all = f" ({failed} could not be sent)" if failed else ""
    if f["target"] == "tree":
        return f"{signal} was sent to everything left in the tree: {times(count)}{not_all}."
    if f["target"] == "members":
        return f"{signal} was sent to {others(count)} of the tree{not_all}."
    target = "the root's process group" if f["target"] == "root-group" else "the root"
    if f["result"] in (None, "delivered"):
        return f"{signal} was sent to {target}."
    return f"{signal} could not be sent to {target}: {f['result']}."


@says("forwarded")
def _forwarded(f: Facts) -> str:
    result = "" if f["result"] in (None, "delivered") else f", which failed: {f['result']}"
    return f"{signal_name(f['signal'])}{sent_from(f)} was passed on to the root{result}."


# What was left, and the tree's end.


@says("leftovers")
def _leftovers(f: Facts) -> str:
    verb = "was" if f["count"] == 1 else "were"
    return f"When the root had gone, {others(f['count'])} of its tree {verb} alive{listed(f)}."


@says("leftover-ended")
def _leftover_ended(f: Facts) -> str:
    return f"The leftover pid {f['pid']} {ended(f)}."


_TAKEOVERS = {
    "keeper-lost": "the keeper was lost",
    "stop-not-acknowledged": "the keeper did not acknowledge the stop in time",
    "kill-overdue": "the keeper was overdue with its SIGKILL",
}


@says("takeover")
def _takeover(f: Facts) -> str:
    why = _TAKEOVERS.get(f["why"], visible(f["why"]))
    return f"The supervisor's front went on in the keeper's place, because {why}."


@says("others-stopped")
def _others_stopped(f: Facts) -> str:
    count = f["stopped"]
    killed = f", {f['killed']} of them by SIGKILL" if f["killed"] else ""
    text = f"All but the root was to be stopped: {others(count)} {was(count)} signalled{killed}"
    if f["interrupted"]:
        what = "the root's end" if f["interrupted"] == "root-exited" else "the run's own stop"
        return f"{text}; then {what} took over."
    if f["remaining"] is None:
        return f"{text}; who remained is not reported."
    left = "nobody remained" if not f["remaining"] else f"{number(f['remaining'])} remained"
    return f"{text}, and {left}."


_PROOFS = {
    "echild": ": the kernel said so",
    "cgroup": ": the kernel said so, and its cgroup could be removed",
    "pidns": ": the init of its pid namespace was reaped, which comes after everything in it",
    "listing": ": the process list, read twice, had none of it",
}


@says("tree-gone")
def _tree_gone(f: Facts) -> str:
    late = "Later, nothing" if f["late"] else "Nothing"
    text = f"{late} that descends from the root was alive any more{_PROOFS.get(f['proof'], '')}."
    if f["stopped"]:
        killed = f", {f['killed']} ended by SIGKILL" if f["killed"] else ""
        text += f" {others(f['stopped']).capitalize()} had been signalled{killed}."
    return text


@says("tree-unproven")
def _tree_unproven(f: Facts) -> str:
    count = f["count"]
    if count is None:
        return "The tree was not proven empty in time; what was left of it was not looked at."
    what = f"{number(count)} {was(count)}"
    errors = f"; killing failed with {', '.join(f['errors'])}" if f["errors"] else ""
    return f"When the bound was over, {what} still there{listed(f)}{errors}."


always(
    "keeper-stays",
    "The supervisor's keeper stayed behind, to end what is left and to say when it is gone.",
)


@says("no-end")
def _no_end(f: Facts) -> str:
    what = "its tree" if f["root_ended"] else "the run"
    return f"The record has no last word: whether anything of {what} is still alive is not known."


@says("closed-after-tree-gone")
def _closed_after(f: Facts) -> str:
    return f"The run was closed {milliseconds(f['ms'])} after its tree was gone."


# The look at an exited root, before it is reaped.

_LOOKS = {
    "completed": "The caller looked at the exited root before it was reaped",
    "timed-out": "The exited root was held for the caller to look at, and the time for it ran out",
    "failed": "The exited root was held for the caller to look at, which failed",
    "unavailable": "The exited root could not be held for the caller to look at",
}


@says("opportunity")
def _opportunity(f: Facts) -> str:
    return f"The exited root was held unreaped, for at most {f['bound_ms']} ms."


@says("looked-at")
def _looked_at(f: Facts) -> str:
    what = _LOOKS.get(f["outcome"], f"The look at the exited root ended: {visible(f['outcome'])}")
    return f"{what} ({visible(f['why'])})." if f["why"] else f"{what}."


# What is seen right now.

always(
    "now-other-boot",
    "The machine has started again since, or this is another: nothing of it is alive here.",
)


@says("now-alive")
def _now_alive(f: Facts) -> str:
    parts = []
    for answer, verb in (("yes", "alive"), ("no", "gone")):
        names = [f"the {one['role']} (pid {one['pid']})" for one in f[answer]]
        if names:
            both = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
            parts.append(f"{both} {'is' if len(names) == 1 else 'are'} {verb}")
    if not parts:
        return "Whether its processes are alive cannot be told from here: it is not known."
    rest = "" if f["yes"] else "; whether others of its tree are alive is not known"
    return f"Right now {' and '.join(parts)}{rest}."
