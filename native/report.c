/* What the ladder tells: one line a fact, written after the act. */
#include "lastout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {NULL, "owner-died", "owner-hung-up", "stdin-ended", "signal", "requested", "timeout",
                                    "lease-expired", "peer-lost", "root-exited"};

static pid_t leftover[NAMED];
static int nleftover;

const char *trigger_name(enum trigger t) { return names[t]; }

const char *errno_name(int e)
{
    static const struct { int number; const char *name; } known[] = {
        {EPERM, "EPERM"}, {ESRCH, "ESRCH"}, {EINVAL, "EINVAL"}, {ENOSYS, "ENOSYS"}, {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"},
        {ENOMEM, "ENOMEM"}, {EAGAIN, "EAGAIN"}, {EACCES, "EACCES"}};
    static char other[16];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == e) return known[i].name;
    snprintf(other, sizeof other, "errno %d", e);
    return e ? other : NULL;
}

static void signal_and_sender(const struct message *m)
{
    line_str("signal", m->signo ? signal_name(m->signo) : NULL);
    if (m->has_sender) line_sender(m->pid, m->uid, m->kernel);
    else line_null("sender");
}

void stop_line(const char *event, const struct message *m, int64_t at, const struct graces *g)
{
    line_begin_at(event, at);
    line_str("trigger", names[m->trigger]);
    line_str("reason", m->has_reason ? m->reason : NULL);
    line_str("by", m->has_by ? m->by : NULL);
    signal_and_sender(m);
    line_str("which", m->which[0] ? m->which : NULL);
    line_int("stdin_grace_ms", g->stdin_ms);
    line_int("term_grace_ms", g->term_ms);
    line_int("reap_bound_ms", g->reap_ms);
}

static void signalled(int signo, const char *target, int error)
{
    line_begin("signalled");
    line_str("signal", signal_name(signo));
    line_str("target", target);
    line_str("result", error ? errno_name(error) : "delivered");
}

/* `pid` is a group where the root has one of its own. */
void root_signalled_line(int signo, int error, const struct message *forwarded)
{
    const struct board *b = run.board;
    signalled(signo, b->root_group ? "root-group" : "root", error);
    line_int("pid", b->root_group ? b->root_group : b->root.pid);
    line_bool("forwarded", forwarded != NULL);
    if (forwarded && forwarded->has_sender) line_sender(forwarded->pid, forwarded->uid, forwarded->kernel);
    line_end();
}

void members_signalled_line(int signo, int count, int failed)
{
    signalled(signo, "members", count ? 0 : failed ? EPERM : ESRCH);
    line_int("count", count);
    line_int("failed", failed);
    line_end();
}

void kill_line(void)
{
    signalled(SIGKILL, "tree", totals.kills_sent ? 0 : totals.failed ? EPERM : ESRCH);
    line_int("count", totals.kills_sent);
    line_int("failed", totals.failed);
    line_int("rounds", totals.rounds);
    line_bool("root", totals.root);
    line_end();
}

/* ---- members ---- */

static int listed, counted;

void with_inode(struct member *m)
{
    int fd = pidfd_open_(m->id.pid);
    m->id.inode = pidfd_inode(fd);
    if (fd >= 0) close(fd);
}

static bool root_ended(const struct member *m)
{
    const struct board *b = run.board;
    return m->id.pid == b->root.pid && b->root_exited && !b->root_reaped;
}

static void list_one(const struct member *m, void *data)
{
    struct member full = *m;
    (void)data;
    if (root_ended(m)) return;
    counted++;
    if (listed == NAMED || !line_has_room()) return;
    with_inode(&full);
    line_item_member(&full, NULL, false);
    leftover[listed++] = m->id.pid;
}

static void members_line(const char *event)
{
    listed = counted = 0;
    line_begin(event);
    line_array("members");
    walk_tree(list_one, NULL, WALK_LIVING);
    line_array_end();
    line_int("count", counted);
    line_int("omitted", counted - listed);
}

void leftovers_line(void)
{
    members_line("leftovers");
    nleftover = listed;
    if (counted) line_end();             /* none: they ended while we looked, there is nothing to tell */
}

bool leftover_named(pid_t pid)
{
    for (int i = 0; run.spec->leftovers_wait && i < nleftover; i++)
        if (leftover[i] == pid) return true;
    return false;
}

void list_line(void)
{
    members_line("list");
    line_end_control();
}

static void unproven_one(const struct member *m, void *data)
{
    (void)data;
    struct member full = *m;
    if (root_ended(m) && run.board->root_reaped) return;
    counted++;
    if (listed == 64 || !line_has_room()) return;
    listed++;
    with_inode(&full);
    line_item_member(&full, errno_name(signal_member(m, (int[]){SIGKILL}, 1)), true);
}

void unproven_line(const char *why, bool keeper_stays, bool look)
{
    listed = counted = 0;
    line_begin("tree-unproven");
    line_array("remaining");
    if (look) walk_tree(unproven_one, NULL, WALK_DEAD_TOO);
    line_array_end();
    if (look) line_int("remaining_count", counted);
    else line_null("remaining_count");
    line_str("why", why);
    line_bool("keeper_stays", keeper_stays);
    line_end();
}

void gone_line(bool late, const char *proof, int64_t stop_ms)
{
    line_begin("tree-gone");
    line_array("stopped");
    for (uint32_t i = 0; i < totals.stopped && i < NAMED && line_has_room(); i++) line_item_ident(&totals.stopped_ids[i]);
    line_array_end();
    line_int("stopped_count", totals.stopped);
    line_int("killed_count", totals.killed);
    line_int("reaped_count", totals.reaped);
    line_int("rounds", totals.rounds);
    line_int("remaining", 0);
    line_str("proof", proof);
    line_bool("late", late);
    line_int("stop_ms", stop_ms);
    line_end();
}

void takeover_line(const char *why, int keeper_status)
{
    line_begin("takeover");
    line_str("why", why);
    if (keeper_status >= 0) line_int("keeper_status", keeper_status);
    else line_null("keeper_status");
    line_end();
}
