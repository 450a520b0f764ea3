"""The proof that the tests of the supervisor guard what they say: each line below is taken out of
a copy of native/, and the test named beside it must then fail.

    python tests/mutants.py [WORD]      all, or those whose line contains WORD

Also run by `make torture` (tests/supervisor/test_mutants.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """`old` must stand in the file exactly once."""

    file: str
    old: str
    new: str
    test: str

    @property
    def name(self) -> str:
        return f"{self.file}: {self.old.strip().splitlines()[0][:70]}"


def mutants() -> list[Mutant]:
    """One for each guarded line."""
    return [Mutant(*row) for row in _TABLE]


_S, _SK, _L = (
    "test_start_state.py::test_",
    "test_front_keeper.py::test_",
    "test_leftovers.py::test_",
)
_ST = "test_front_keeper_stuck.py::test_"
_SIG, _OWN, _IN = "test_signals.py::test_", "test_owner.py::test_", "test_stdin_end.py::test_"
_EX, _REC, _CON = "test_exit_status.py::test_", "test_record.py::test_", "test_control.py::test_"
_OTH = "test_stop_others.py::test_"
_LOST = "../tiers/test_cgroup_start_lost.py::test_"
_PID, _ROW = "../tiers/test_pidns.py::test_", "test_peers_row.py::test_nobody_left"
_LOCK, _TTY, _OUT = "test_lock.py::test_", "test_terminal_share.py::test_", "test_output.py::test_"

_TABLE: list[tuple[str, str, str, str]] = [
    # ---- before the root exists
    ("main.c", "while (fd >= 0 && fd < 3 &&", "while (0 && fd >= 0 && fd < 3 &&",
     _S + "closed_standard_descriptors_are_filled_and_never_left_free"),
    ("main.c", "    signal(SIGCHLD, SIG_DFL);", "    ;", _S + "ignored_sigchld_loses_no_status"),
    ("main.c", "run.ignored |= 1ull << (kept[i] - 1);", ";",
     _S + "ignored_hup_int_and_quit_stay_ignored"),
    ("main.c", "            sigdelset(&all, kept[i]);\n", "", _SIG + "under_nohup_hup_does_nothing"),
    ("main.c", "    fcntl(spec.control, F_SETFD, FD_CLOEXEC);\n", "",
     _S + "the_control_socket_is_not_passed_on"),
    ("main.c", "    note_inherited_children();\n    if", "    if",
     _S + "an_inherited_child_survives_a_stop_and_a_takeover"),
    ("main.c", "if (prctl(PR_SET_CHILD_SUBREAPER, 1) && getpid() != 1)", "if (0)",
     _SK + "keeper_killed_and_all_ignore_sigterm"),
    ("main.c", "if (run.keeper) forget_arguments(), front_main();",
     "if (run.keeper) front_main();",
     _S + "front_and_keeper_are_where_a_callers_kill_does_not_reach_both"),
    ("keeper.c", 'if (prctl(PR_SET_CHILD_SUBREAPER, 1)) return "PR_SET_CHILD_SUBREAPER";', "",
     _L + "stopped_with_the_root[double fork]"),
    ("keeper.c", "run.terminal == TERMINAL_NONE ? setsid() < 0 : setpgid(0, 0)", "0",
     _SK + "front_of_a_group_that_is_killed_whole"),
    ("keeper.c", "return !fstatfs(0, &fs) && (uint32_t)fs.f_type == PIPEFS_MAGIC;", "return true;",
     _IN + "a_fifo_may_get_a_new_writer_and_never_triggers"),
    ("spawn.c", 'TRY("reset the signals", signals_to_default());', "",
     _S + "clean_defaults_in_the_root_whatever_was_blocked_or_ignored"),
    ("spawn.c", 'TRY("prctl", prctl(PR_SET_PDEATHSIG, SIGKILL));', "",
     _SK + "keeper_killed_the_root_is_dead_at_once_and_the_front_ends_the_rest"),
    ("spawn.c", "    if (s->close_fds) {", "    if (0) {",
     _S + "close_fds_leaves_what_was_asked_for"),
    ("spawn.c", "    close_all_but(keep, sizeof keep / sizeof *keep);\n", "",
     _S + "inherited_descriptors_are_not_held_by_the_supervisor"),
    ("spawn.c", "if (errno == ENOEXEC && argc < 4096) {", "if (0) {",
     _EX + "a_script_without_a_first_line_runs_in_the_shell"),
    ("tty.c", "if (run.terminal == TERMINAL_NONE) return setsid() < 0 ||",
     "if (run.terminal == TERMINAL_NONE) return",
     _S + "what_the_root_inherits"),
    ("owner.c", "up.id.pid == owner->pid && up.id.start == owner->start", "up.id.pid == owner->pid",
     _OWN + "an_ancestor_with_another_start_time_is_refused"),
    ("owner.c", "if (flock(run.lock, LOCK_EX | LOCK_NB))", "if (0)", _LOCK + "busy_is_refused"),
    ("owner.c", "strtoll(e->d_name, NULL, 10) > s->epoch", "0 > s->epoch",
     _LOCK + "a_newer_epoch_is_refused"),
    ("spec.c", "    if (s > most) bail", "    if (0) bail",
     "test_bad_input.py::test_refused_with_one_line_and_nothing_started"),
    # ---- triggers
    ("loop.c", "if (p[OWNER].revents) forget_fd(&run.owner_pidfd), stop_for(OWNER_DIED, \"owner\");",
     "if (p[OWNER].revents) forget_fd(&run.owner_pidfd);",
     _OWN + "owner_killed_with_a_wrapper_between[sh]"),
    ("loop.c", "if (p[PARENT].revents) forget_fd(&run.parent_pidfd), stop_for(OWNER_DIED,",
     "if (p[PARENT].revents) forget_fd(&run.parent_pidfd), (void)(",
     _OWN + "a_killed_wrapper_is_an_owner_death_as_well"),
    ("loop.c", "(struct pollfd){0, POLLRDHUP, 0}", "(struct pollfd){0, 0, 0}",
     _IN + "shutdown_of_a_socket_that_the_root_does_not_read"),
    ("loop.c", "run.watch_stdin = false, stop_for(STDIN_ENDED, NULL);", "run.watch_stdin = false;",
     _IN + "unread_data_does_not_hide_the_end"),
    ("loop.c", "    stop_for(OWNER_HUNG_UP, NULL);\n", "", _CON + "its_hang_up_stops_the_run"),
    ("loop.c", "if (p[FRONT_END].revents) front_is_lost();",
     "if (p[FRONT_END].revents) forget_fd(&run.front_pidfd);",
     _SK + "front_killed_the_root_keeps_sigterm_and_its_grace"),
    ("loop.c", "if (p[DEADLINE].revents) take_deadline();", "",
     _CON + "a_deadline_stops_the_run_as_an_expired_lease"),
    ("tty.c", "return key || (m->kernel && m->signo == SIGWINCH)",
     "return (m->kernel && m->signo == SIGWINCH)", _TTY + "a_key_arrives_once_and_is_no_trigger"),
    ("tty.c", "    if (root_stands_still()) {\n", "    if (true) {\n",
     "../terminal/test_job_control.py::test_continued_before_the_front_stood_still"),
    ("control.c", "    if (!keeper_has_room()) return true;\n", "",
     _CON + "a_peer_that_never_reads_costs_the_record_nothing"),
    # ---- the ladder
    ("stop.c", "static const int polite[] = {SIGTERM, SIGCONT};",
     "static const int polite[] = {SIGTERM, 0};",
     _SIG + "a_stopped_root_is_continued_so_that_it_hears_sigterm"),
    ("stop.c", "stop.half_due = now + stop.graces.term_ms * MS / 2;", "",
     _L + "one_that_needs_half_the_grace_gets_it_though_the_root_ignores_sigterm"),
    ("stop.c", "    else if (b->stage == STOP_TERM && !b->swept) sweep();", "",
     _L + "one_gets_sigterm_as_soon_as_the_root_has_gone"),
    ("stop.c", "    if (b->root_signalled && (m->id.pid == b->root.pid ||", "    if (0 && (m->id.pid == b->root.pid ||",
     _SIG + "nobody_gets_sigterm_twice"),
    ("stop.c", "    if (b->stage >= STOP_STDIN) {\n        bool shortened",
     "    if (b->stage >= STOP_STDIN && m->trigger != SIGNAL) {\n        bool shortened",
     _SIG + "a_second_signal_neither_ends_nor_restarts_the_ladder"),
    ("stop.c", "m->trigger == REQUESTED && shorten(m->number)", "false",
     _CON + "a_stop_under_way_is_shortened"),
    ("stop.c", "if (m->trigger == STDIN_ENDED && root_lives()", "if (0 && root_lives()",
     _IN + "default_graces_are_kept_to_the_millisecond"),
    ("stop.c", "else enter_kill();\n        wake_peer();", "wake_peer();",
     _SIG + "nothing_is_killed_before_the_grace_is_over"),
    ("stop.c", "stop.due = due;\n    if (b->stage >= STOP_KILL)",
     "stop.due = due - 300 * MS;\n    if (b->stage >= STOP_KILL)",
     _SIG + "nothing_is_killed_before_the_grace_is_over"),
    ("stop.c", "if (stop.extended || late < LATE_MS * MS) return false;", "return false;",
     "test_cases.py::test_stopped_for_longer_than_its_grace_it_gets_its_time_once"),
    ("stop.c", "(b->root_group > 1 ? kill(-b->root_group, signals[i]) : kill(b->root.pid, signals[i]))",
     "kill(b->root.pid, signals[i])", _SIG + "passed_on_once_to_the_roots_group_and_recorded"),
    ("stop.c", "    kill_line();\n    stop.kill_told = true;", "    return;",
     "test_emptiness_proof.py::test_a_frozen_member_is_not_called_gone"),
    ("drive.c", "reap_and_remove(b->stage < STOP_KILL || observe_wants());", "reap_and_remove(false);",
     _L + "the_root_stays_unreaped_until_the_others_have_been_asked"),
    ("drive.c", "    release_stdio(false);", "    ;", _IN + "the_owner_gets_epipe_once_the_root_is_gone"),
    ("drive.c", "if (run.spec->leftovers_wait && run.board->stage == RUNNING) {", "if (0) {",
     _L + "waiting_for_leftovers_stops_nothing"),
    ("drive.c", "    if (b->stage == UNPROVEN) return run.role == FRONT;",
     "    if (b->stage == UNPROVEN) return true;",
     "test_emptiness_proof.py::test_a_frozen_member_is_not_called_gone"),
    ("tree_linux.c", "if (leftover_named(got)) reaped_line(\"leftover\", got, status, &u), wake_peer();",
     "if (leftover_named(got)) reaped_line(\"leftover\", got, status, &u);",
     _L + "waiting_for_leftovers_stops_nothing"),
    ("tree_linux.c", "if (was_killed(kids[i]) || is_foreign(kids[i])) continue;",
     "if (was_killed(kids[i])) continue;",
     _S + "an_inherited_child_survives_a_stop_and_a_takeover"),
    ("tree_linux.c", "group > 1 && group != getpgrp() && group != run.front_group && (getsid(pid) != getsid(0) || group == pid)",
     "group > 1", _TTY + "sigkill_in_the_shared_group_hits_nobody_else"),
    ("proc.c", "*close_ = strrchr(stat, ')')", "*close_ = strchr(stat, ')')",
     _L + "a_name_made_to_confuse_readers"),
    ("proc.c", "(m->state == 'Z' && m->threads <= 1)", "(m->state == 'Z')",
     "test_emptiness_proof.py::test_state_z_of_a_leader_is_not_death"),
    ("proc.c", "bool wanted = (!dead(&m) || how == WALK_DEAD_TOO)", "bool wanted = (true)",
     "test_emptiness_proof.py::test_zombies_never_count"),
    # ---- front and keeper
    ("front.c", "if (!run.board->final) take_over(\"keeper-lost\", status, false);", "",
     _SK + "keeper_killed_and_all_ignore_sigterm"),
    ("front.c", "            kill(run.keeper, SIGCONT);\n", "",
     _SK + "a_stopped_keeper_is_continued_at_once"),
    ("front.c", "now >= front.ack_due) signal_root_ourselves();", "now >= front.ack_due) front.ack_due = 0;",
     _ST + "a_stop_that_the_keeper_does_not_take_up"),
    ("front.c", "if (b->stage < STOP_KILL) return now >= b->kill_due + ACK_MS * MS;",
     "if (b->stage < STOP_KILL) return false;", _ST + "a_sigkill_stage_that_is_overdue[tree]"),
    ("front.c", "    run.board->front_signalled = true;\n", "",
     _ST + "a_stop_that_the_keeper_does_not_take_up"),
    ("keeper.c", "    if (!run.front_lost && getppid() == b->front.pid) pidfd_signal(", "    if (0) pidfd_signal(",
     _SK + "front_stopped_during_a_stop_the_tree_ends_all_the_same[term grace]"),
    ("front.c", "        release_stdio(false);\n", "",
     _OUT + "the_supervisor_lets_go_of_output_as_soon_as_the_root_runs"),
    ("front.c", "if (!run.driver) reap_strangers();", "",
     "test_pid1.py::test_orphans_that_are_not_of_the_root_are_reaped_too"),
    ("front.c", "return front.planned = earlier(due, observe_prompt_until());", "return now_ns() + 50 * MS;",
     "test_idle.py::test_none_after_stdin_of_a_run_that_ignores_it_has_ended"),
    # ---- the status
    ("front.c", "if (b->trigger == TIMEOUT) _exit(EXIT_TIMEOUT);", "",
     _EX + "timeout_is_124_after_a_polite_stop"),
    ("front.c", "if (b->trigger == SIGNAL && !b->root_first) die_by(b->signo);", "",
     _EX + "stopped_by_a_signal_it_dies_by_that_signal_whatever_the_root_says"),
    ("front.c", "b->trigger == SIGNAL && !b->root_first", "b->trigger == SIGNAL",
     _L + "waiting_for_leftovers_still_obeys_a_signal"),
    ("front.c", "if (b->stage != DONE) _exit(EXIT_UNPROVEN);", "",
     "test_emptiness_proof.py::test_a_frozen_member_is_not_called_gone"),
    ("front.c", "_exit(128 + signo);", "_exit(1);",
     "test_pid1.py::test_a_signal_stops_it_and_becomes_128_plus_the_number"),
    # ---- record and control
    ("start.c", "if (is_masked(i)) {", "if (0) {", _REC + "named_arguments_are_masked"),
    ("record.c", "(control_only ? r->size / 2 : r->size)", "(r->size)",
     _CON + "answers_leave_room_for_the_facts_of_the_record"),
    ("record.c", "if (lagging && partial) {", "lagging = lagging && !partial;\n        if (false) {",
     _CON + "a_peer_that_never_reads_costs_the_record_nothing"),
    ("record.c", "    pid_t pid = fork();\n    if (pid == 0) {", "    write_rings();\n    return;\n    pid_t pid = 0;\n    if (pid == 0) {",
     _REC + "a_frozen_disk_delays_no_stop"),
    ("record.c", "if (pid < 0 && run.keeper <= 0 && !run.board->root_known) write_rings();", "",
     _S + "fork_refused_for_lack_of_memory"),
    ("record.c", "if (done) b->record_torn = write(run.record, \"\\n\", 1) != 1;", "",
     _REC + "after_a_full_disk_the_gap_is_named_and_lines_stay_whole"),
    ("keeper.c", "        pump_record();\n", "",
     _REC + "the_keeper_writes_the_record_when_the_front_is_lost"),
    ("others.c", "    if (is_root(m)) return;\n    if (signal_member(m, (int[]){SIGTERM", "    if (signal_member(m, (int[]){SIGTERM",
     _OTH + "everybody_but_the_root"),
    ("others.c", "if (others.killing) stop_walk_and_kill(true, count_kill);", "",
     _OTH + "a_fork_bomb_at_its_limit"),
    ("others.c", "    if (grace) walk_tree(ask, NULL, WALK_LIVING);\n", "",
     _OTH + "one_that_cleans_up_has_the_whole_grace"),
    ("others.c", 'end(b->stage != RUNNING ? "stop" : "root-exited");\n        return;', "",
     _OTH + "a_stop_takes_over"),
    ("others.c", "if (!why) walk_tree(remaining_one, NULL, WALK_LIVING);", "",
     _OTH + "who_cannot_be_killed_is_named"),
    ("tree_linux.c", "    if (calm) calm_down();\n", "", "test_reap_is_calm.py::test_the_last_thread_ends_beside_the_reap"),
    ("proc.c", "if (!i || errno != ESRCH) error = errno;", "error = errno;",
     _OTH + "who_dies_of_the_first_signal_was_stopped"),
    ("tree_linux.c", "if (*(bool *)data && m->id.pid == run.board->root.pid) return;", "",
     _OTH + "everybody_but_the_root"),
    ("control.c", "if (!discarding) error_line(\"a command is at most 4096 bytes\");", "",
     _CON + "rubbish_is_answered_and_changes_nothing"),
    # ---- the stronger tiers
    ("cgroup.c", "    contained_line(text + 4096);\n", "",
     _LOST + "the_front_is_killed_at_each_of_its_calls"),
    ("record.c", "void record_now(void) { if (run.record >= 0) write_rings(); }",
     "void record_now(void) { }", _LOST + "the_front_is_killed_at_each_of_its_calls"),
    ("cgroup.c", "    contained_line(cgroup_path);\n", "",
     _LOST + "all_three_die_before_started_is_written"),
    ("cgroup.c", "if (flock(directory, LOCK_EX | LOCK_NB)) cannot(\"lock it\");", ";",
     _LOST + "while_one_of_them_lives_it_is_theirs[keeper]"),
    ("cgroup.c", "do cgroup_kill();", "do ;",
     _ROW + "_7_the_wrapper_itself_is_killed[front and keeper-cgroup]"),
    ("cgroup.c", "    post_guard();\n}", "}",
     _ROW + "_7_the_wrapper_itself_is_killed[front and keeper-cgroup]"),
    ("pidns.c", "return !mount(\"proc\", \"/proc\", \"proc\", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);",
     "return true;", _PID + "the_root_is_not_pid_1_and_proc_is_right"),
    ("pidns.c", "if (run.role == KEEPER) kill(run.board->init.pid, SIGCONT);", ";",
     _PID + "an_init_that_is_stopped_still_reports_the_roots_end"),
    ("stop.c", "    if (b->init.pid && root_lives() && !signal_root((int[]){SIGKILL}, 1)) stop.next_round", "    if (0) stop.next_round",
     _ROW + "[6b stdin ends, all ignore-pidns]"),
    ("front.c", "    if (b->init.pid) overdue = true;\n", "",
     _PID + "it_ends_with_its_keeper_without_a_grace"),
    ("record.c", "        kill(run.scribe, SIGCONT);", "        ;",
     _REC + "who_writes_is_continued_at_the_end"),
]  # fmt: skip


def build(target: Path, mutant: Mutant | None = None) -> None:
    """Compiles native/, with one line changed, into `target`."""
    with tempfile.TemporaryDirectory(prefix="lastout-mutant-") as scratch:
        native = Path(scratch) / "native"
        shutil.copytree(ROOT / "native", native)
        if mutant is not None:
            path = native / mutant.file
            text = path.read_text()
            if text.count(mutant.old) != 1:
                raise LookupError(f"{text.count(mutant.old)} times, not once: {mutant.name}")
            path.write_text(text.replace(mutant.old, mutant.new))
        sources = sorted(map(str, native.glob("*.c")))
        argv = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-o", str(target), *sources]
        subprocess.run(argv, check=True)


def fails(binary: Path, test: str) -> bool:
    """Runs one test against a supervisor; a usage error of pytest is no failure of the test."""
    env = os.environ | {
        "LASTOUT_SUPERVISOR_UNDER_TEST": str(binary),
        "LASTOUT_TEST_BOUND": "6",
    }
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", ""]
    argv += ["--timeout", "60", f"{ROOT}/tests/supervisor/{test}"]
    done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{test}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 1


def survives(mutant: Mutant, directory: Path) -> bool:
    """True when no test notices: the line is not guarded."""
    binary = directory / "supervisor"
    build(binary, mutant)
    return not fails(binary, mutant.test)


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    alive = 0
    with tempfile.TemporaryDirectory(prefix="lastout-mutants-") as directory:
        for mutant in mutants():
            if word not in mutant.name + mutant.test:
                continue
            try:
                lives = survives(mutant, Path(directory))
                word_for_it = "NOT NOTICED" if lives else "killed"
            except LookupError as error:
                lives, word_for_it = True, f"STALE ({error})"
            alive += lives
            print(f"{word_for_it:12} {mutant.name}  <- {mutant.test}", flush=True)
    print(f"{alive} not noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
