"""What `why` says of a record: told truly, with the right grade, and never more."""

from __future__ import annotations

import pytest

from lastout.evidence.claims import Grade
from lastout.evidence.words import KINDS, REMINDER, sentence

from .records import KEEPER, ROOT, SECOND, Record

OBSERVED, TRACED = Grade.OBSERVED, Grade.TRACED
REPORTED, NOT_REPORTED = Grade.REPORTED, Grade.NOT_REPORTED


def test_exit_137_is_no_sigkill() -> None:
    record = Record().started().exited(137).gone()
    assert record.says("root-exited") == "The root exited with code 137."
    assert record.claim("code-looks-like").grade is NOT_REPORTED
    assert "SIGKILL" not in record.headline()
    assert not {"sender-not-reported", "no-own-signal"} & set(record.kinds())


@pytest.mark.parametrize("code", [0, 1, 2, 128, 255])
def test_ordinary_codes_look_like_nothing(code: int) -> None:
    assert "code-looks-like" not in Record().started().exited(code).gone().kinds()


def test_exit_124_is_not_said_to_be_a_timeout() -> None:
    record = Record().started().exited(124).gone()
    assert "may exit with any code" in record.says("code-looks-like")


def test_an_untraced_kill_has_no_sender() -> None:
    record = Record().started().killed().gone()
    claim = record.claim("sender-not-reported")
    assert (claim.grade, claim.whole) == (NOT_REPORTED, True)
    assert record.claim("no-own-signal").grade is OBSERVED
    assert "OOM killer chose" not in record.headline()


def test_a_traced_kill_names_its_sender() -> None:
    record = Record().trace_began().started().sent("KILL", 1).killed(at=1.01).gone()
    record.add("trace-ended", lost=0)
    assert record.says("sender") == "SIGKILL for the root came from pid 911 (earlyoom, start 42)."
    assert record.claim("sender").grade is TRACED
    assert "sender-not-reported" not in record.kinds()


def test_a_whole_trace_without_a_sender_says_so() -> None:
    record = Record().trace_began().started().killed().gone().add("trace-ended", lost=0)
    assert record.claim("sender-none-seen").grade is TRACED


@pytest.mark.parametrize(
    ("began", "ended"),
    [
        ({"covers": "from-here"}, {"lost": 0}),
        ({"sees_senders": False}, {"lost": 0}),
        ({}, {"lost": 3}),
        ({}, {"omitted": 1}),
        ({}, {"why": "interrupted"}),
        ({}, None),
    ],
)
def test_a_trace_with_holes_never_says_that_nobody_sent(began: dict, ended: dict | None) -> None:
    record = Record().trace_began(**began).started().killed().gone()
    if ended is not None:
        record.add("trace-ended", **ended)
    assert "sender-none-seen" not in record.kinds()
    assert record.claim("sender-not-reported").grade is NOT_REPORTED


def test_a_signal_of_another_name_or_after_the_end_is_no_cause() -> None:
    record = Record().trace_began().started().sent("TERM", 1).killed(at=2).sent("KILL", 3).gone()
    assert "sender" not in record.kinds()


def test_of_signals_that_can_be_caught_the_last_counts() -> None:
    other = {"pid": 912, "start": 43, "name": "other"}
    record = Record().started().sent("TERM", 1).sent("TERM", 2, sender=other).killed("TERM", at=2.1)
    assert "other" in record.says("sender")
    killed = Record().started().sent("KILL", 1).sent("KILL", 1.01, sender=other).killed(at=1.02)
    assert "earlyoom" in killed.says("sender")


def test_a_signal_that_was_ignored_is_no_cause() -> None:
    record = Record().started().sent("KILL", 1, result="ignored").killed(at=2).gone()
    assert "sender" not in record.kinds()


def test_the_oom_killer_needs_the_kernels_word() -> None:
    record = Record().trace_began().started()
    record.add(
        "traced-oom", at=1, at_ns=1001 * SECOND, who="root", victim={"pid": 300, "name": "agent"}
    )
    record.sent("KILL", 1.1, by="kernel", sender=None).killed(at=1.2).gone()
    assert record.says("sender-oom").startswith("The kernel's OOM killer chose the root")
    only_kernel = Record().started().sent("KILL", 1, by="kernel", sender=None).killed(at=2).gone()
    assert only_kernel.says("sender-kernel") == "SIGKILL for the root came from the kernel."
    assert "sender-oom" not in only_kernel.kinds()


def test_an_oom_counter_that_rose_is_no_cause() -> None:
    record = Record().started()
    record.add("oom-counters", at=0.5, when="begin", machine=3, cgroup="/a", cgroup_kills=0)
    record.killed(at=2).gone()
    record.add("oom-counters", when="end", machine=4, cgroup="/a", cgroup_kills=0)
    assert "whether that was this run is not reported" in record.says("oom-counters")
    assert "sender-not-reported" in record.kinds()


def test_oom_counters_that_do_not_enclose_the_end_say_nothing() -> None:
    record = Record().started().killed(at=1).gone()
    record.add("oom-counters", at=2, when="begin", machine=3)
    record.add("oom-counters", at=3, when="end", machine=3)
    assert "oom-counters" not in record.kinds()


def test_our_own_signal_is_told_with_its_time_and_as_no_cause() -> None:
    record = Record().started().add("stop", trigger="requested", at=1)
    record.add("signalled", at=1.001, signal="TERM", target="root-group", result="delivered")
    record.killed("TERM", at=1.02).gone()
    assert record.says("own-signal") == "lastout had sent SIGTERM to the root 19 ms before."
    assert "no-own-signal" not in record.kinds()
    assert "Whether anybody besides lastout" in record.says("sender-not-reported")


def test_a_kill_during_our_grace_is_not_our_kill() -> None:
    """Somebody else's SIGKILL hits the root; the sweep comes later and reaches the others only."""
    record = Record().started().add("stop", trigger="requested", at=1)
    record.add("signalled", at=1.001, signal="TERM", target="root-group", result="delivered")
    record.killed(at=2)
    record.add("signalled", at=4, signal="KILL", target="tree", count=1, failed=0, root=False)
    record.gone()
    assert "own-signal" not in record.kinds()


def test_our_sweep_that_reached_the_root_is_ours() -> None:
    record = Record().started().add("stop", trigger="requested", at=1).killed(at=4)
    record.add("signalled", at=4.1, signal="KILL", target="tree", count=2, failed=0, root=True)
    record.gone()
    assert "the root among them" in record.says("own-signal")


def test_a_sweep_of_a_stop_that_began_after_the_end_is_not_ours() -> None:
    record = Record().started().killed(at=1).add("stop", trigger="root-exited", at=1.1)
    record.add("signalled", at=4.1, signal="KILL", target="tree", count=1, failed=0).gone()
    assert "own-signal" not in record.kinds()


def test_a_kill_past_the_supervisor_is_lastouts_own() -> None:
    """The supervisor's lines are whole and have no SIGKILL: a forced line of the owner's does."""
    root = {**ROOT, "result": "delivered"}
    before = Record().started().add("forced", verdict="", detail={"how": "now"}, at=1)
    begun = before.killed(at=2).gone()
    assert "perhaps the root too" in begun.says("own-kill-outside")
    after = Record().started().killed(at=2).gone()
    after.add("forced", verdict="unproven", detail={"signalled_count": 1, "signalled": [root]})
    assert "to the root" in after.says("own-kill-outside")
    for record in (begun, after):
        assert record.claim("own-kill-outside").grade is REPORTED
        assert "no-own-signal" not in record.kinds()
        assert "Whether anybody besides lastout" in record.says("sender-not-reported")
    other = {**root, "start": root["start"] + 1}
    others = Record().started().killed(at=2).gone()
    others.add("forced", verdict="unproven", detail={"signalled_count": 1, "signalled": [other]})
    later = Record().started().killed(at=2).add("forced", detail={"how": "now"}, at=3).gone()
    for record in (others, later):
        assert not {"own-kill-outside", "no-own-signal"} & set(record.kinds())
    term = Record().started().killed("TERM", at=2).gone().add("forced", verdict="killed")
    assert "no-own-signal" in term.kinds()


def test_a_record_with_a_gap_does_not_say_that_we_sent_nothing() -> None:
    whole = Record().started().killed().gone()
    torn = Record().started().killed().add("leftovers", count=1, members=[]).gone()
    del torn.lines[2]
    dropped = Record().started().killed().add("dropped", lines=2, where="record").gone()
    taken = Record().started().killed().add("takeover", writer="front", why="keeper-lost").gone()
    open_end = Record().started().killed()
    assert "no-own-signal" in whole.kinds()
    for record in (torn, dropped, taken, open_end):
        assert "no-own-signal" not in record.kinds()
    assert dropped.claim("dropped").grade is NOT_REPORTED


def test_a_keeper_that_was_lost_explains_the_kernels_kill_without_claiming_it() -> None:
    record = Record().started().add("takeover", writer="front", why="keeper-lost")
    record.killed().gone(writer="front")
    assert "keeper-lost-kill" in record.kinds()
    assert "sender-not-reported" in record.kinds()


def test_the_keepers_own_signal_is_recognised_by_identity() -> None:
    own = Record().started().sent("KILL", 1, sender={**KEEPER, "name": "lastout"}).killed(at=2)
    assert "lastout's own keeper" in own.says("sender")
    stranger = {**KEEPER, "start": 1, "name": "lastout"}
    other = Record().started().sent("KILL", 1, sender=stranger).killed(at=2)
    assert "lastout's own" not in other.says("sender")


def test_a_record_without_an_end_is_not_known() -> None:
    record = Record().started()
    assert record.claim("no-end").grade is NOT_REPORTED
    assert "not known" in record.headline()


def test_unproven_names_who_remains_and_a_late_end_replaces_it() -> None:
    record = Record().started().exited(0)
    member = {"pid": 400, "start": 1, "name": "sudo", "kill_error": "EPERM"}
    record.add("tree-unproven", remaining=[member], remaining_count=1, keeper_stays=True)
    assert "sudo (pid 400)" in record.headline()
    assert "EPERM" in record.headline()
    record.gone(late=True)
    assert "Later, nothing" in record.headline()
    assert "sudo" not in record.headline()


def test_a_wrapper_that_fails_while_its_job_runs_on() -> None:
    """Exit 1 and silence, and the job behind it alive: both facts, from our lines alone."""
    record = Record().started().exited(1)
    job = {"pid": 400, "start": 1, "name": "codex", "ppid": 201}
    record.add("leftovers", count=1, members=[job])
    record.add("stop", trigger="root-exited").gone(stopped_count=1)
    story = [sentence(claim.kind, claim.facts) for claim in record.story().claims]
    assert "The root exited with code 1." in story
    assert (
        "When the root had gone, 1 other process of its tree was alive: codex (pid 400)." in story
    )


def test_a_tool_of_a_shell_that_has_gone_is_stopped_before_the_result() -> None:
    record = Record().started().exited(0)
    record.add("leftovers", count=1, members=[{"pid": 400, "start": 1, "name": "node"}])
    record.add("stop", trigger="root-exited").gone(stopped_count=1, at=9)
    record.add("closed", at=9.5, verdict="exited")
    assert (
        record.says("closed-after-tree-gone")
        == "The run was closed 500 ms after its tree was gone."
    )
    early = Record().started().exited(0).add("closed", at=3, verdict="killed").gone(at=4)
    assert "closed-after-tree-gone" not in early.kinds()


@pytest.mark.parametrize("reason", ["owner", "lock", "epoch"])
def test_a_refusal_starts_nothing(reason: str) -> None:
    record = Record().add("refused", writer="front", reason=reason, message="it is held by run x")
    assert record.headline() == "Nothing was started: it is held by run x."


def test_an_owner_that_only_prepared() -> None:
    record = Record().add("prepared", argv=["agent"])
    assert record.claim("prepared").grade is REPORTED
    assert "is not reported" in record.headline()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"trigger": "owner-died", "which": "owner"}, "its owner died"),
        ({"trigger": "owner-died", "which": "parent"}, "the direct parent died"),
        ({"trigger": "owner-hung-up"}, "the control socket hung up"),
        ({"trigger": "stdin-ended"}, "stdin ended"),
        ({"trigger": "timeout"}, "timeout was over"),
        ({"trigger": "lease-expired"}, "lease ran out"),
        ({"trigger": "peer-lost", "which": "front"}, "the supervisor's front was lost"),
        (
            {"trigger": "signal", "signal": "TERM", "sender": {"pid": 5, "uid": 0}},
            "SIGTERM came to the supervisor from pid 5 (uid 0)",
        ),
        (
            {"trigger": "signal", "signal": "INT", "sender": {"pid": 0, "kernel": True}},
            "from the terminal or the kernel",
        ),
        (
            {"trigger": "signal", "signal": "TERM", "sender": {"pid": 1, "uid": 0}},
            "or from a pid namespace below",
        ),
        ({"trigger": "something-new"}, "of `something-new`"),
    ],
)
def test_triggers(fields: dict, words: str) -> None:
    assert words in Record().started().add("stop", **fields).says("stop")


def test_what_the_requester_said_is_reported_not_observed() -> None:
    record = Record().started().add("stop", trigger="requested", reason="abort", by="me")
    assert record.claim("stop").grade is OBSERVED
    assert record.claim("stop-reason").grade is REPORTED


def test_a_failed_command_is_told_with_its_reminder() -> None:
    record = Record().started()
    record.add(
        "command", agent="codex-exec", item="a", command="make", status="failed", exit_code=137
    )
    assert "cause not reported" in record.says("command")
    assert "SIGKILL" not in record.says("command")
    assert REMINDER in record.says("cause-reminder")


def test_native_timeout_evidence_is_cause_enough() -> None:
    record = Record().started()
    said = {"timedOutAfterMs": 500}
    record.add(
        "command", item="a", command="make", status="failed", exit_code=1, native_timeout=said
    )
    assert "timedOutAfterMs 500" in record.says("native-timeout")
    assert "cause-reminder" not in record.kinds()


def test_a_code_from_a_text_is_said_to_be_from_a_text() -> None:
    record = Record().started()
    record.add("command", item="a", command="x", exit_code=1, exit_code_from="text")
    assert "(in its text)" in record.says("command")


def test_a_command_without_an_end() -> None:
    record = Record().started().add("command", item="a", command="make", phase="unfinished")
    assert record.claim("command-unfinished").grade is NOT_REPORTED


def test_torn_and_foreign_lines_are_named() -> None:
    data = Record().started().data() + b"garbage\n" + b'{"v":1,"event":"tree-go'
    from lastout.evidence import journal
    from lastout.evidence.why import story

    kinds = [
        claim.facts["kind"]
        for claim in story(journal.parse(data)).claims
        if claim.kind == "unreadable"
    ]
    assert kinds == ["torn", "foreign"]


def test_a_line_in_somebody_elses_name_is_not_used() -> None:
    record = Record().started().add("tree-gone", writer="owner")
    record.add("closed", writer="front", verdict="exited")
    assert not {"tree-gone", "closed"} & set(record.kinds())
    assert "misplaced-line" in record.kinds()
    assert "no-end" in record.kinds()


def test_the_guards_word_is_the_supervisors() -> None:
    record = Record().started().gone(writer="guard", proof="cgroup")
    assert "its cgroup could be removed" in record.says("tree-gone")
    assert "no-end" not in record.kinds()
    assert (
        "root-exited"
        not in Record().started().add("root-exited", writer="guard", pid=300, code=0).kinds()
    )


def test_an_answer_on_the_control_socket_leaves_a_number_out() -> None:
    record = Record().started().exited(0).gone()
    record.lines[-1]["seq"] = 4
    assert record.claim("lines-missing").detail
    assert "control socket" in record.says("lines-missing")


def test_an_empty_record_says_that_it_says_nothing() -> None:
    assert set(Record().kinds()) == {"start-not-known", "no-end"}


def test_control_characters_do_not_reach_the_terminal() -> None:
    record = Record().started(argv=["a\x1b]0;x\x07", "b\nc"], cwd="/\x1b[2J")
    assert "\x1b" not in record.says("started")
    assert "\n" not in record.says("started")


def test_every_kind_has_words() -> None:
    assert len(KINDS) > 40
