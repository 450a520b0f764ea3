/* The tree below the driver: reaped, counted, ended. The driver is a child subreaper, so every orphan of the tree becomes its
 * child, and waitid with __WALL saying ECHILD is the kernel's word that nothing is left. */
#include "lastout.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct totals totals;

static pid_t kids[MAX_PIDS];

/* Who was sent SIGKILL and is not reaped yet, by number: ours until we reap it. */
static uint8_t killed[(1 << 22) / 8];

/* By pid, the start time of who was counted as stopped, frozen, killed: each process counts once. */
static uint32_t marks[3][1 << 16];

static bool was_killed(pid_t pid) { return killed[(pid >> 3) & (sizeof killed - 1)] & (1 << (pid & 7)); }
static void set_killed(pid_t pid) { killed[(pid >> 3) & (sizeof killed - 1)] |= (uint8_t)(1 << (pid & 7)); }
static void clear_killed(pid_t pid) { killed[(pid >> 3) & (sizeof killed - 1)] &= (uint8_t)~(1 << (pid & 7)); }

void forget_kills(void)
{
    int n = own_children(kids, MAX_PIDS);
    for (int i = 0; i < n; i++) clear_killed(kids[i]);
}

bool mark(enum marks which, const struct ident *id)
{
    uint32_t *slot = &marks[which][id->pid & 0xffff], is = (uint32_t)id->start | 1u << 31;
    bool first = *slot != is;
    *slot = is;
    return first;
}

static void unmark(enum marks which, const struct ident *id) { marks[which][id->pid & 0xffff] = 0; }

void note_stopped(const struct ident *id)
{
    if (!mark(COUNTED, id)) return;
    if (totals.stopped < NAMED) totals.stopped_ids[totals.stopped] = *id;
    totals.stopped++;
}

/* ---- reaping ---- */

void reaped_line(const char *who, pid_t pid, int status, const struct rusage *u)
{
    line_begin("reaped");
    line_int("pid", pid);
    line_str("who", who);
    line_status(status);
    line_int("user_us", u->ru_utime.tv_sec * 1000000LL + u->ru_utime.tv_usec);
    line_int("system_us", u->ru_stime.tv_sec * 1000000LL + u->ru_stime.tv_usec);
    line_int("max_rss_kib", u->ru_maxrss);
    line_end();
}

static bool hurried;

/* In a reap the kernel clears /proc of the dead, and spins while somebody else is at it: a thread of the dead that is just
 * ending, and cannot go on when we keep it from this processor. Among a crowd that is the smaller evil. */
static pid_t wait_calmly(pid_t pid, int *status, struct rusage *u)
{
    bool calm = hurried && totals.kills_sent <= CROWD;
    if (calm) calm_down();
    pid_t got = (pid_t)syscall(SYS_wait4, pid, status, WNOHANG | __WALL, u);
    int error = errno;
    if (calm) hurry();
    errno = error;
    return got;
}

/* 0: it has not ended. Its number is free afterwards. */
static pid_t reap_one(pid_t pid)
{
    struct rusage u;
    struct member m;
    int status;
    bool killing = run.board->stage >= STOP_KILL && pid > 0 && read_member(pid, &m);
    pid_t got = wait_calmly(pid, &status, &u);
    if (got <= 0) return got;
    clear_killed(got);
    if (got == run.board->root.pid && !run.board->root_reaped) {
        if (!run.board->root_exited) note_root_end(status);      /* the look before the reap failed */
        run.board->root_reaped = true;
        reaped_line("root", got, status, &u);
        return got;
    }
    if (got == run.board->init.pid) return got;              /* ours, not a member */
    totals.reaped++;
    if (killing && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        totals.killed++;
        note_stopped(&m.id);
    }
    if (leftover_named(got)) reaped_line("leftover", got, status, &u), wake_peer();
    return got;
}

int wait_status(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

void note_root_end(int status)
{
    struct board *b = run.board;
    b->root_status = status;
    b->root_first = (b->stage == RUNNING || b->stage == STARTING) && !b->front_signalled;
    b->root_exited = true;
    line_begin("root-exited");
    line_int("pid", b->root.pid);
    line_status(status);
    line_end();
}

/* The root's end is seen and told before the reap: from here on the board knows its status whatever becomes of us. */
static void look_at_root(void)
{
    struct board *b = run.board;
    siginfo_t info = {0};
    if (!b->root_known || b->root_exited || b->init.pid) return;          /* below an init it is the init's to look at */
    if (!waitid(P_PID, (id_t)b->root.pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && info.si_pid == b->root.pid)
        note_root_end(wait_status(&info));
}

/* A list of children is a hint: it may hold back, never prove. */
static enum reap_result reap_by_list(bool hold_root)
{
    struct board *b = run.board;
    int n = own_children(kids, MAX_PIDS), living = n < 0;
    bool root_held = false;
    for (int i = 0; i < n; i++) {
        if (is_foreign(kids[i])) continue;
        bool root = kids[i] == b->root.pid && !b->root_reaped && !b->init.pid;
        if (root) look_at_root();        /* it may have ended since */
        if (root && !b->root_exited) living++;
        else if (root && hold_root) root_held = true;
        else if (reap_one(kids[i]) == 0) living++;
    }
    if (n < 0) look_again();
    if (living) return TREE_LIVES;
    return root_held ? ONLY_ROOT : TREE_EMPTY;
}

/* The root is a zombie that we keep. */
static enum reap_result reap_but_root(void)
{
    return reap_by_list(true) == TREE_LIVES ? TREE_LIVES : ONLY_ROOT;
}

/* Beside children that were ours before the run ECHILD can never come; then an empty list, read twice, has to do, and the
 * record says so. */
static enum reap_result reap_beside_foreign(bool hold_root)
{
    record_scribe_ended();
    enum reap_result r = reap_by_list(hold_root);
    if (r != TREE_EMPTY) return r;
    return reap_by_list(false) == TREE_EMPTY && reap_by_list(false) == TREE_EMPTY ? TREE_EMPTY : TREE_LIVES;
}

enum reap_result reap(bool hold_root)
{
    struct board *b = run.board;
    look_at_root();
    if (run.role == FRONT && (run.foreigns || run.scribe || run.guard > 0)) return reap_beside_foreign(hold_root);
    if (hold_root && b->root_exited && !b->root_reaped && !b->init.pid) return reap_but_root();
    for (;;) {
        siginfo_t info = {0};
        pid_t got = -1;
        if ((b->root_known && !b->root_reaped && !b->init.pid) || b->stage >= STOP_KILL) {   /* see it before it is gone */
            int failed = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
            if (!failed && !info.si_pid) return TREE_LIVES;
            look_at_root();
            if (info.si_pid == b->root.pid && hold_root && b->root_exited && !b->root_reaped) return reap_but_root();
            if (!failed) got = reap_one(info.si_pid);
        } else got = reap_one(-1);
        if (got == 0) return TREE_LIVES;
        if (got > 0 || errno == EINTR) continue;
        if (errno == ECHILD) return TREE_EMPTY;
        look_again();                    /* no word is no proof */
        return TREE_LIVES;
    }
}

void reap_root(void)
{
    look_at_root();
    if (run.board->root_exited && !run.board->root_reaped && !run.board->init.pid) reap_one(run.board->root.pid);
}

/* ---- SIGKILL ---- */

/* Where we may. A bomb of hundreds spins on every core, and each of its sessions has as large a share of them as ours: at that
 * share one look at all of them takes longer than the bound. What sleeps between its rounds takes nothing from others. */
static int usual_nice;

void hurry(void)
{
    struct { int priority; } lowest = {1};
    if (hurried) return;
    hurried = true;
    usual_nice = getpriority(PRIO_PROCESS, 0);
    if (!syscall(SYS_sched_setscheduler, 0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest)) return;
    setpriority(PRIO_PROCESS, 0, -20);
}

void calm_down(void)
{
    struct { int priority; } none = {0};
    if (!hurried) return;
    hurried = false;
    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
    setpriority(PRIO_PROCESS, 0, usual_nice);
}

/* A whole group, where every member must descend from the root: it lies in another session than ours (one can only join
 * groups of one's own session), or our child leads it. */
static bool group_is_ours(pid_t pid, pid_t group)
{
    return group > 1 && group != getpgrp() && group != run.front_group && (getsid(pid) != getsid(0) || group == pid);
}

/* Kill our own children, the cheapest thing that cannot hit a stranger; what was below them is ours in the next round. */
int kill_round(void)
{
    int n = own_children(kids, MAX_PIDS), fresh = 0, failed = 0;
    pid_t last_group = 0;
    for (int i = 0; i < n; i++) {
        if (was_killed(kids[i]) || is_foreign(kids[i])) continue;
        pid_t group = getpgid(kids[i]);
        bool sent = false;
        if (group == last_group || (group_is_ours(kids[i], group) && !kill(-group, SIGKILL))) {
            last_group = group;
            sent = true;
        }
        /* Also alone: the group's success may have been another member's. */
        if (!kill(kids[i], SIGKILL)) sent = true;
        if (!sent) {                                           /* EPERM: set-uid; told as what remains */
            failed++;
            continue;
        }
        set_killed(kids[i]);
        if (kids[i] == run.board->root.pid && !run.board->root_exited) totals.root = true;
        fresh++;
    }
    totals.failed = (uint32_t)failed;
    totals.kills_sent += (uint32_t)fresh;
    return fresh;
}

static struct member found[4096];
static int nfound, newly;

static void freeze(const struct member *m, void *data)
{
    if (*(bool *)data && m->id.pid == run.board->root.pid) return;
    if (nfound < (int)(sizeof found / sizeof *found)) found[nfound++] = *m;
    if (!mark(FROZEN, &m->id)) return;
    if (signal_member(m, (int[]){SIGSTOP}, 1)) unmark(FROZEN, &m->id);
    newly++;
}

/* Against what forks faster than it dies: stop everything first (nothing is reaped meanwhile, so a full pids limit stays full
 * and nothing new can start), then kill from the leaves up. Whoever has a SIGSTOP pending forks no more, in whatever state the
 * scheduler keeps it; so a walk that meets nobody new is the last one. */
void stop_walk_and_kill(bool spare_root, void (*killed)(const struct member *))
{
    for (int pass = 0; pass < 24; pass++) {
        nfound = newly = 0;
        walk_tree(freeze, &spare_root, WALK_VISIT_FIRST);
        if (!newly) break;
    }
    for (int i = nfound - 1; i >= 0; i--)
        if (!signal_member(&found[i], (int[]){SIGKILL}, 1)) killed(&found[i]);
}
