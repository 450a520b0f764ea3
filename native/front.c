/* The front: the pid that the caller sees. It relays signals and commands to the keeper, passes lines on, and takes over when
 * the keeper is lost or does not do what it must. */
#include "observe.h"
#include "tty.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    bool started, keeper_ended, given_up;
    struct message asked;                /* the first stop that we know of; kind 0: none */
    int64_t ack_due, kill_due;           /* CLOCK_MONOTONIC, ns: of that stop, while the keeper has not taken it up */
    int64_t planned, indulgence;         /* when we meant to wake; nothing is overdue before the second */
    uint32_t rounds;
    int64_t rounds_at;
} front;

void front_asked_to_stop(const struct message *m)
{
    if (front.asked.kind || run.board->stage > RUNNING) return;
    front.asked = *m;
    front.ack_due = now_ns() + ACK_MS * MS;
    front.kill_due = now_ns() + (m->trigger == REQUESTED && m->number >= 0 && m->number < run.spec->graces.term_ms
                                     ? m->number : run.spec->graces.term_ms) * MS;
}

/* ---- takeover ---- */

static void take_over(const char *why, int keeper_status, bool overdue)
{
    struct board *b = run.board;
    run.driver = true;
    run.child_ended = true;
    /* With its keeper the init of a pid namespace ends, and all that is in it: nobody is there to be polite to. */
    if (b->init.pid) overdue = true;
    if (run.peer >= 0) close(run.peer);
    run.peer = -1;
    takeover_line(why, keeper_status);
    observe_lost("keeper-lost");          /* it held the root, and took the commands */
    reap(true);                          /* the root ends with the keeper: see it before anybody signals it */
    if (b->stage >= STOP_STDIN) {
        stop_resume(overdue);
        return;
    }
    struct message lost = {.kind = M_STOP, .trigger = PEER_LOST, .number = -1, .which = "keeper"};
    struct message m = front.asked.kind ? front.asked : lost;
    m.no_grace = overdue;
    b->stage = RUNNING;
    stop_begin(&m);
}

static void look_after_keeper(void)
{
    int status, now = run.board->final ? 0 : WNOHANG;       /* after its last word only the exit is left: wait for that */
    while (run.keeper && waitpid(run.keeper, &status, now | WUNTRACED | __WALL) == run.keeper) {
        if (WIFSTOPPED(status)) {
            kill(run.keeper, SIGCONT);
            continue;
        }
        run.keeper = 0;
        front.keeper_ended = true;
        if (!run.board->final) take_over("keeper-lost", status, false);
    }
}

/* It was told, it was waited for; now it ends, and what it had below it is ours. */
static void replace_keeper(const char *why)
{
    int status = -1;
    int64_t now = now_ns(), due = now + run.spec->graces.reap_ms * MS, end = run.board->end_due;
    if (end && end < due) due = end;
    if (due < now + 200 * MS) due = now + 200 * MS;
    kill(run.keeper, SIGKILL);
    /* Bounded naps: a machine under load needs its time, and a debugger's tracee is a zombie before it is ours to reap. */
    while (waitpid(run.keeper, &status, WNOHANG | __WALL) != run.keeper) {
        poll(NULL, 0, 2);
        if (now_ns() < due) continue;
        unproven_line("keeper-stuck", true, false);      /* not even SIGKILL reaches it: nobody can say what lives below */
        front.given_up = true;
        return;
    }
    run.keeper = 0;
    front.keeper_ended = true;
    if (!run.board->final) take_over(why, status, true);
}

/* The keeper did not begin a stop in time: the root at least gets its SIGTERM, from us. */
static void signal_root_ourselves(void)
{
    const struct board *b = run.board;
    struct member m;
    front.ack_due = 0;
    if (!b->root_known || !read_member(b->root.pid, &m) || m.id.start != b->root.start || m.ppid != b->keeper.pid) return;
    m.parent_start = b->keeper.start;
    run.board->front_signalled = true;
    int error = signal_member(&m, (int[]){SIGTERM, SIGCONT}, 2);
    line_begin("signalled");
    line_str("signal", "TERM");
    line_str("target", "root");
    line_str("result", error ? errno_name(error) : "delivered");
    line_int("pid", b->root.pid);
    line_bool("forwarded", false);
    line_end();
}

static bool overdue(int64_t now)
{
    const struct board *b = run.board;
    if (now < front.indulgence) return false;
    if (b->stage <= RUNNING) return front.kill_due && now >= front.kill_due + ACK_MS * MS;
    if (b->stage < STOP_KILL) return now >= b->kill_due + ACK_MS * MS;
    if (b->stage > STOP_KILL) return false;
    if (b->rounds != front.rounds || !front.rounds_at) {
        front.rounds = b->rounds;
        front.rounds_at = now;
    }
    return now >= front.rounds_at + ACK_MS * MS;
}

/* ---- the loop's two questions ---- */

/* Children that are neither keeper nor scribe: as pid 1 all are ours to reap, else orphans of the ones that we inherited.
 * Those themselves belong to whoever executed us. */
static void reap_strangers(void)
{
    static pid_t kids[MAX_PIDS];
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) || !info.si_pid) return;
    int n = own_children(kids, MAX_PIDS);
    for (int i = 0; i < n; i++)
        if (getpid() == 1 ? kids[i] != run.keeper && kids[i] != run.scribe : !is_foreign(kids[i]))
            waitpid(kids[i], NULL, WNOHANG | __WALL);
}

static bool front_step(int64_t now)
{
    const struct board *b = run.board;
    if (front.planned && now - front.planned > LATE_MS * MS) front.indulgence = now + (EXTEND_MS + ACK_MS) * MS;
    if (!run.driver && (run.child_ended || b->final)) {
        run.child_ended = false;
        look_after_keeper();
        record_scribe_ended();
        if (!run.driver) reap_strangers();
    }
    if (!run.driver && !b->final && overdue(now)) replace_keeper(b->stage <= RUNNING ? "stop-not-acknowledged" : "kill-overdue");
    if (front.given_up) return true;
    tty_step();
    if (run.driver) return drive_step(now);
    if (!front.started && b->stage >= RUNNING && !b->exit_status) {
        front.started = true;
        release_stdio(false);
        release_descriptors();
    }
    if (front.ack_due && b->stage > RUNNING) front.ack_due = front.kill_due = 0;
    if (front.ack_due && now >= front.ack_due) signal_root_ourselves();
    return b->stage == UNPROVEN || (b->final && front.keeper_ended);
}

static int64_t front_next_due(void)
{
    const struct board *b = run.board;
    int64_t due = 0;
    if (run.driver) due = drive_next_due();
    else if (b->final || b->stage == UNPROVEN) due = 0;
    else if (b->stage <= RUNNING) due = earlier(front.ack_due, front.kill_due ? front.kill_due + ACK_MS * MS : 0);
    else if (b->stage < STOP_KILL) due = b->kill_due + ACK_MS * MS;
    else due = (front.rounds_at ? front.rounds_at : now_ns()) + ACK_MS * MS;
    if (due) due = earlier(due < front.indulgence ? front.indulgence : due, 0);
    return front.planned = earlier(due, observe_prompt_until());
}

/* ---- the end ---- */

static _Noreturn void die_by(int signo)
{
    sigset_t one;
    prctl(PR_SET_DUMPABLE, 0);           /* the core, if any, was the root's */
    signal(signo, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, signo);
    if (getpid() != 1) {
        kill(getpid(), signo);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    _exit(128 + signo);                  /* pid 1 does not die of its own signals */
}

static _Noreturn void end(void)
{
    const struct board *b = run.board;
    if (b->final) cgroup_dismiss_guard();
    tty_restore();
    flush_lines();
    if (b->exit_status) {
        /* Whoever holds the control socket has been told there: stderr is the command's. */
        if (run.control < 0) fprintf(stderr, "%s: %s\n", program, b->exec_error);
        exit(b->exit_status);
    }
    if (b->stage != DONE) _exit(EXIT_UNPROVEN);
    if (b->trigger == TIMEOUT) _exit(EXIT_TIMEOUT);
    if (b->trigger == SIGNAL && !b->root_first) die_by(b->signo);
    if (!b->root_exited) _exit(EXIT_UNPROVEN);
    if (WIFSIGNALED(b->root_status)) die_by(WTERMSIG(b->root_status));
    _exit(WEXITSTATUS(b->root_status));
}

_Noreturn void front_main(void)
{
    loop(front_step, front_next_due);
    end();
}
