/* The ladder: the one way a run is ended, whoever asks for it.
 *
 *   STOP_STDIN  stdin ended: the root may leave by itself
 *   STOP_TERM   SIGTERM and SIGCONT to the root's group; at half of the grace, or when the root has gone, to all others
 *   STOP_KILL   SIGKILL until nothing is left
 *   UNPROVEN    the bound is over and something is left: the front ends, the keeper stays
 *
 * Act first, write afterwards: no line is built before its signal is on the way. */
#include "observe.h"

#include <errno.h>
#include <unistd.h>

static const int polite[] = {SIGTERM, SIGCONT};

static struct {
    int64_t begin, due, half_due, next_round;    /* CLOCK_MONOTONIC, ns; half_due 0: swept, or not to be */
    struct graces graces;                        /* of this stop */
    int quiet_rounds;
    bool extended, kill_told, lent;              /* lent: the dues stand later, for a look that goes on */
} stop;

static void set_due(int64_t due)
{
    struct board *b = run.board;
    stop.due = due;
    if (b->stage >= STOP_KILL) {
        b->end_due = due;
        return;
    }
    b->kill_due = due + (b->stage == STOP_STDIN ? stop.graces.term_ms * MS : 0);
    b->end_due = b->kill_due + stop.graces.reap_ms * MS;
}

void stop_lend(int64_t ns)
{
    if (ns > 0) stop.lent = run.board->stage >= STOP_STDIN && run.board->stage <= STOP_KILL;
    if (!stop.lent) return;
    stop.lent = ns > 0;
    if (stop.half_due) stop.half_due += ns;
    set_due(stop.due + ns);
}

static bool root_lives(void) { return run.board->root_known && !run.board->root_exited; }

static int signal_root(const int *signals, int count)
{
    const struct board *b = run.board;
    int error = 0;
    for (int i = 0; i < count; i++)
        if ((b->root_group > 1 ? kill(-b->root_group, signals[i]) : kill(b->root.pid, signals[i])) && !error) error = errno;
    return error;
}

/* ---- SIGTERM ---- */

struct sweep { int count, failed; };

static void sweep_one(const struct member *m, void *data)
{
    struct sweep *s = data;
    const struct board *b = run.board;
    /* Whoever lies in the root's group had the signal with the root; in a shared group the root had it alone. */
    if (b->root_signalled && (m->id.pid == b->root.pid || (b->root_group && m->pgid == b->root_group))) return;
    if (signal_member(m, polite, 2)) s->failed++;
    else s->count++, note_stopped(&m->id);
}

/* Once: to every member that the root's group did not hold. */
static void sweep(void)
{
    struct sweep s = {0, 0};
    run.board->swept = true;
    stop.half_due = 0;
    walk_tree(sweep_one, &s, WALK_LIVING);
    if (s.count || s.failed) members_signalled_line(SIGTERM, s.count, s.failed);
}

static void enter_kill(void)
{
    struct board *b = run.board;
    int64_t now = now_ns();
    b->kill_due = now;
    b->stage = STOP_KILL;
    stop.lent = false;
    set_due(now + stop.graces.reap_ms * MS);
    stop.half_due = 0;
    stop.next_round = now;
    /* With its init the root would end unseen: it goes first, and has a moment to be reported. */
    if (b->init.pid && root_lives() && !signal_root((int[]){SIGKILL}, 1)) stop.next_round = now + pidns_moment(stop.graces.reap_ms);
}

/* m: the stop that begins here, told between the act and its own line; NULL when it began before. */
static void enter_term(const struct message *m, int64_t at)
{
    struct board *b = run.board;
    int64_t now = now_ns();
    bool root = root_lives(), polite_at_all = stop.graces.term_ms > 0;
    int error = 0;
    b->stage = STOP_TERM;
    set_due(now + stop.graces.term_ms * MS);
    stop.half_due = now + stop.graces.term_ms * MS / 2;
    if (root && polite_at_all) {
        error = signal_root(polite, 2);
        b->root_signalled = true;
    }
    if (m) {
        stop_line("stop", m, at, &stop.graces);
        line_end();
    }
    if (!polite_at_all) enter_kill();
    else if (root) root_signalled_line(SIGTERM, error, NULL);
    else sweep();
}

/* ---- begin ---- */

static bool shorten(int64_t grace_ms)
{
    struct board *b = run.board;
    int64_t due = now_ns() + grace_ms * MS;
    if (grace_ms < 0 || b->stage >= STOP_KILL) return false;
    bool shorter = due < stop.due || (b->stage == STOP_STDIN && grace_ms < stop.graces.term_ms);
    if (grace_ms < stop.graces.term_ms) stop.graces.term_ms = (int)grace_ms;
    set_due(due < stop.due ? due : stop.due);
    if (stop.half_due > due) stop.half_due = due;
    stop.lent = false;                   /* asked for now: also during a look */
    return shorter;
}

void stop_begin(const struct message *m)
{
    struct board *b = run.board;
    int64_t at = boot_ns();
    if (b->stage >= UNPROVEN) return;
    if (b->stage >= STOP_STDIN) {
        bool shortened = m->trigger == REQUESTED && shorten(m->number);
        stop_line("stop-again", m, at, &stop.graces);
        line_bool("shortened", shortened);
        line_end();
        wake_peer();
        return;
    }
    b->trigger = (int)m->trigger;
    b->signo = m->trigger == SIGNAL ? m->signo : 0;
    hurry();
    stop.begin = now_ns();
    stop.graces = run.spec->graces;
    if (m->trigger == REQUESTED && m->number >= 0 && m->number < stop.graces.term_ms) stop.graces.term_ms = (int)m->number;
    if (m->no_grace) stop.graces.term_ms = 0;
    if (m->trigger == STDIN_ENDED && root_lives() && stop.graces.stdin_ms && !m->no_grace) {
        b->stage = STOP_STDIN;
        set_due(stop.begin + stop.graces.stdin_ms * MS);
        stop_line("stop", m, at, &stop.graces);
        line_end();
    } else {
        stop.graces.stdin_ms = 0;
        enter_term(m, at);
    }
    wake_peer();
}

/* The front goes on where the lost keeper was. */
void stop_resume(bool overdue)
{
    struct board *b = run.board;
    hurry();
    stop.begin = now_ns(), stop.graces = run.spec->graces;
    if (overdue) {
        int64_t end = b->end_due;
        enter_kill();
        if (end && end < stop.due) set_due(end > stop.begin + 100 * MS ? end : stop.begin + 100 * MS);
    } else if (b->stage == STOP_KILL) {
        stop.due = b->end_due;
    } else {
        stop.due = b->kill_due;
        b->stage = STOP_TERM;
        if (!b->swept) sweep();
    }
}

/* ---- progress ---- */

/* The root has ended and something else lives. */
void stop_root_ended(void)
{
    struct board *b = run.board;
    if (b->stage == STOP_STDIN) enter_term(NULL, 0);
    else if (b->stage == STOP_TERM && !b->swept) sweep();
    wake_peer();
}

void stop_tree_empty(void)
{
    struct board *b = run.board;
    bool late = b->stage == UNPROVEN;
    observe_over("not-seen");
    if (b->stage >= STOP_KILL && !stop.kill_told) kill_line();
    say_what_was_dropped();
    const char *proof = cgroup_path[0] ? "cgroup" : b->init.pid ? "pidns" : run.role == FRONT && run.foreigns ? "listing" : "echild";
    gone_line(late, proof, stop.begin ? (now_ns() - stop.begin) / MS : 0);
    b->final = true;
    b->stage = DONE;
}

static void count_kill(const struct member *m)
{
    totals.root |= m->id.pid == run.board->root.pid && !run.board->root_exited;
    totals.kills_sent++;
}
/* One step of the SIGKILL stage. A round that finds somebody new is followed by the next at once; without, the kernel gets a
 * little time (SIGCHLD ends the wait). */
static void kill_step(int64_t now)
{
    struct board *b = run.board;
    if (now < stop.next_round && !(b->init.pid && b->root_exited)) return;
    b->rounds = ++totals.rounds;
    /* In a quiet round, too: what is not our child yet may wait below somebody who is killed and not dead. */
    if (totals.rounds > WALK_AFTER_ROUNDS && stop.quiet_rounds % 5 == 0) stop_walk_and_kill(false, count_kill);
    if (cgroup_path[0] && stop.quiet_rounds % 5 == 0) cgroup_kill();
    int fresh = kill_round();
    stop.quiet_rounds = fresh ? 0 : stop.quiet_rounds + 1;
    /* The few that were killed need a processor to die: fifty runs that stop at once would keep it from them. */
    if (!fresh && totals.kills_sent <= CROWD) calm_down();
    else if (fresh) hurry();
    int64_t rest = b->stage == UNPROVEN && stop.quiet_rounds > 5 ? 1000 : stop.quiet_rounds > 5 ? 10 : 1;
    stop.next_round = fresh ? now : now + rest * MS;
}

static void enter_unproven(void)
{
    struct board *b = run.board;
    kill_line();
    stop.kill_told = true;
    observe_over("tree-unproven");
    say_what_was_dropped();
    unproven_line("bound-exceeded", run.role == KEEPER, true);
    b->stage = UNPROVEN;
    wake_peer();
}

/* A wake-up that comes much too late (we were frozen, the machine slept) gives the agent once the time that it had not. */
static bool overslept(int64_t now)
{
    int64_t late = now - stop.due;
    if (stop.extended || late < LATE_MS * MS) return false;
    stop.extended = true;
    set_due(now + (late < EXTEND_MS * MS ? late : EXTEND_MS * MS));
    return true;
}

void stop_deadlines(int64_t now)
{
    struct board *b = run.board;
    if (b->stage <= RUNNING && run.timeout_due && now >= run.timeout_due) {
        struct message m = {.kind = M_STOP, .trigger = TIMEOUT, .number = -1};
        stop_begin(&m);
    }
    if (b->stage == STOP_TERM && stop.half_due && now >= stop.half_due) sweep();
    if ((b->stage == STOP_STDIN || b->stage == STOP_TERM) && now >= stop.due && !overslept(now)) {
        if (b->stage == STOP_STDIN) enter_term(NULL, 0);
        else enter_kill();
        wake_peer();
    }
    if (b->stage == STOP_KILL) {
        kill_step(now);
        /* The bound is looked at after a round and a reap: a late wake-up alone is no reason to give up. */
        enum reap_result left = now >= stop.due ? reap(observe_wants()) : TREE_EMPTY;
        if (left == TREE_LIVES || (left == ONLY_ROOT && !observe_holds())) enter_unproven();
    }
    /* Whoever was adopted since, or can be killed by now: looked for once a second, and at every SIGCHLD. */
    if (b->stage == UNPROVEN) {
        if (stop.quiet_rounds > 5 && now >= stop.next_round) forget_kills();
        kill_step(now);
    }
}

/* When to look again, if nothing happens; 0: never. */
int64_t stop_next_due(void)
{
    const struct board *b = run.board;
    switch ((int)b->stage) {
    case STARTING:
    case RUNNING: return run.timeout_due;
    case STOP_TERM: return stop.half_due && stop.half_due < stop.due ? stop.half_due : stop.due;
    case STOP_STDIN: return stop.due;
    case STOP_KILL:
    case UNPROVEN: return stop.next_round;
    }
    return 0;
}

void forward_signal(const struct message *m)
{
    /* Held for a look, the root keeps its group's number from everybody else. */
    if (!root_lives() && !(observe_holds() && run.board->root_group)) return;
    int error = signal_root(&m->signo, 1);
    root_signalled_line(m->signo, error, m);
    wake_peer();
}
