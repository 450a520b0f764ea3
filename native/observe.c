/* The look at an exited root. It is unreaped meanwhile, so its pid, group and session are still its own, and what it left
 * behind can be told apart by them. Commands, signals and stops work as ever; only what the root's end itself would set off
 * waits: the reap, and the stop of its leftovers. A ladder that was under way stands still for as long as the look takes. */
#include "observe.h"

enum { PROMPT_MS = 5 };

bool observe_holds(void) { return run.board->observing == OBSERVE_OPEN; }
bool observe_wants(void) { return observe_holds() || run.board->observing == OBSERVE_ARMED; }

bool observe_open(void)
{
    struct board *b = run.board;
    struct member root = {0};
    if (b->observing != OBSERVE_ARMED) return false;
    int64_t bound = run.spec->graces.observe_ms * MS;
    b->observe_due = now_ns() + bound;
    b->observing = OBSERVE_OPEN;
    stop_lend(bound);
    read_member(b->root.pid, &root);
    line_begin("opportunity");
    line_int("pid", b->root.pid);
    line_int("pgid", root.pgid);
    line_int("session", root.session);
    line_int("bound_ms", run.spec->graces.observe_ms);
    line_int("until_boottime_ns", boot_ns() + bound);
    line_end();
    wake_peer();
    return true;
}

static void end(const char *outcome, const char *why)
{
    struct board *b = run.board;
    bool held = observe_holds();
    int64_t now = now_ns();
    b->observing = OBSERVE_CLOSED;
    line_begin("observed");
    line_int("pid", b->root.pid);
    line_str("outcome", outcome);
    line_str("why", why);
    line_int("held_us", held ? (now - b->observe_due) / 1000 + run.spec->graces.observe_ms * 1000LL : 0);
    line_end();
    if (held && now < b->observe_due) stop_lend(now - b->observe_due);
    run.child_ended = true;              /* what waited comes now */
    wake_peer();
}

void observe_command(enum message_kind kind)
{
    observe_deadline(now_ns());          /* late is late, also when we are */
    if (kind == M_ACKNOWLEDGE && observe_holds()) end("completed", NULL);
    else if (kind == M_DROP && observe_wants()) end("failed", "dropped");
    else error_line(run.board->observing == OBSERVE_CLOSED ? "the look at the exited root is over" : "no exit is being observed");
}

void observe_lost(const char *why)
{
    if (observe_wants()) end("failed", why);
}

void observe_over(const char *why)
{
    if (observe_holds()) end("failed", why);
    else if (observe_wants()) end("unavailable", why);
}

void observe_deadline(int64_t now)
{
    if (observe_holds() && now >= run.board->observe_due) end("timed-out", NULL);
}

/* An observer that acknowledges at once must not wait for the writer of the record to be forked. The lines are in the board. */
int64_t observe_prompt_until(void)
{
    int64_t until = observe_holds() ? run.board->observe_due - (run.spec->graces.observe_ms - PROMPT_MS) * MS : 0;
    return until > now_ns() ? until : 0;
}

int64_t observe_next_due(void) { return observe_holds() ? run.board->observe_due : 0; }
