/* `stop-others`: the root stays, every other member is stopped. For a host that ends an agent's turn, not the agent: what the
 * turn started must be gone before its result is told.
 *
 * It is no ladder of the run's end: a stop that begins meanwhile takes over, and says so. The kernel tells us nothing about
 * processes that are not our children, so the tree is looked at again and again while this lasts, and never otherwise. */
#include "line.h"
#include "observe.h"

#include <string.h>
#include <sys/wait.h>

enum { LOOK_MS = 16 };

static struct {
    bool active, killing, extended;
    struct message asked;
    int64_t begin, due, look, rest;      /* CLOCK_MONOTONIC, ns; rest: until the next look */
    struct ident stopped[NAMED];
    uint32_t count, killed;
    int sent, failed, alive;
} others;

static void note(const struct ident *id)
{
    if (!mark(COUNTED, id)) return;
    if (others.count < NAMED) others.stopped[others.count] = *id;
    others.count++;
}

static bool is_root(const struct member *m) { return m->id.pid == run.board->root.pid; }

static void ask(const struct member *m, void *data)
{
    (void)data;
    if (is_root(m)) return;
    if (signal_member(m, (int[]){SIGTERM, SIGCONT}, 2)) others.failed++;
    else others.sent++, note(&m->id);
}

static void count_kill(const struct member *m)
{
    note(&m->id);
    if (mark(KILLED, &m->id)) others.killed++;
}

static void count_one(const struct member *m, void *data)
{
    (void)data;
    if (!is_root(m)) others.alive++;
}

static int count_living(void)
{
    others.alive = 0;
    walk_tree(count_one, NULL, WALK_LIVING);
    return others.alive;
}

/* A process that forks and ends between two lists is in neither. Its child is ours by then, or its own end waits to be reaped
 * by us; so two lists in a row with nothing to reap between them hold everybody. */
static bool alone(void)
{
    siginfo_t info = {0};
    if (count_living()) return false;
    if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && info.si_pid) {
        run.child_ended = true;
        return false;
    }
    return !count_living();
}

static void remaining_one(const struct member *m, void *data)
{
    struct member full = *m;
    (void)data;
    if (is_root(m)) return;
    others.alive++;
    if (others.alive > 64 || !line_has_room()) return;
    with_inode(&full);
    line_item_member(&full, errno_name(signal_member(m, (int[]){SIGKILL}, 1)), true);
}

static void text_of(const struct message *m)
{
    line_str("reason", m->has_reason ? m->reason : NULL);
    line_str("by", m->has_by ? m->by : NULL);
}

/* why: what came between; NULL when it went to its end. */
static void end(const char *why)
{
    others.active = false;
    calm_down();
    if (others.killing) members_signalled_line(SIGKILL, (int)others.killed, 0);
    line_begin("others-stopped");
    text_of(&others.asked);
    line_array("stopped");
    for (uint32_t i = 0; i < others.count && i < NAMED && line_has_room(); i++) line_item_ident(&others.stopped[i]);
    line_array_end();
    line_int("stopped_count", others.count);
    line_int("killed_count", others.killed);
    line_array("remaining");
    others.alive = 0;
    if (!why) walk_tree(remaining_one, NULL, WALK_LIVING);
    line_array_end();
    if (why) line_null("remaining_count");
    else line_int("remaining_count", others.alive);
    line_str("interrupted", why);
    line_int("took_ms", (now_ns() - others.begin) / MS);
    line_end();
    wake_peer();
}

static void look_in(int64_t ns) { others.look = now_ns() + ns; }

void others_begin(const struct message *m)
{
    const struct board *b = run.board;
    int64_t grace = m->number >= 0 && m->number < run.spec->graces.term_ms ? m->number : run.spec->graces.term_ms, at = boot_ns();
    if (others.active || b->stage != RUNNING || b->root_exited) {
        error_line(others.active ? "the others are being stopped already" : "the run is ending: its stop takes everybody");
        return;
    }
    memset(&others, 0, sizeof others);
    others.active = true;
    others.asked = *m;
    others.begin = now_ns();
    others.due = others.begin + grace * MS;
    others.rest = MS;
    if (grace) walk_tree(ask, NULL, WALK_LIVING);
    line_begin_at("stop-others", at);
    text_of(m);
    line_int("term_grace_ms", grace);
    line_int("reap_bound_ms", run.spec->graces.reap_ms);
    line_end();
    if (others.sent || others.failed) members_signalled_line(SIGTERM, others.sent, others.failed);
    look_in(0);
}

/* As in the ladder: who slept through the grace, and all that was to hear SIGTERM with it, gets some of it once more. */
static bool overslept(int64_t now)
{
    int64_t late = now - others.due;
    if (others.extended || late < LATE_MS * MS) return false;
    others.extended = true;
    others.due = now + (late < EXTEND_MS * MS ? late : EXTEND_MS * MS);
    return true;
}

void others_step(int64_t now)
{
    const struct board *b = run.board;
    if (!others.active) return;
    if (b->stage != RUNNING || b->root_exited) {
        end(b->stage != RUNNING ? "stop" : "root-exited");
        return;
    }
    if (now < others.look && now < others.due) return;
    if (alone()) {
        end(NULL);
        return;
    }
    if (now >= others.due && !overslept(now)) {
        if (others.killing) {            /* the bound is over: told, and left to the run's own stop */
            end(NULL);
            return;
        }
        others.killing = true;
        others.due = now + run.spec->graces.reap_ms * MS;
        others.rest = MS;
        hurry();
    }
    if (others.killing) stop_walk_and_kill(true, count_kill);
    look_in(others.rest);
    if (others.rest < LOOK_MS * MS) others.rest *= 2;
}

int64_t others_next_due(void)
{
    if (!others.active) return 0;
    return others.look < others.due ? others.look : others.due;
}
