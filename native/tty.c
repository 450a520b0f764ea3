/* The terminal that the run was started in: three cases.
 *
 * NONE        there is none, or the root gets a session of its own
 * FOREGROUND  we are the foreground job of a shell: the root takes our place. It has a group of its own and the terminal, so
 *             the keys reach it alone; when it stops, we stop in the same way, for the shell waits for us; continued, we give
 *             it the terminal again. What the shell will find at the end is what it gave us
 * SHARED      anything else (a script, make, a pipeline into a pager): the root stays in our group and has the keys with us */
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static struct termios modes;
static int terminal[3] = {-1, -1, -1}, flags[3];         /* 0-2 as they were: descriptors of our own, and their flags */
static uint32_t stops_seen;
static bool restored;

enum terminal terminal_case(const struct spec *s, const struct member *self)
{
    if (s->new_session || s->contain == CONTAIN_PIDNS || !self->tty) return TERMINAL_NONE;
    if (self->pgid != getpid()) return TERMINAL_SHARED;
    /* Of a terminal that is not the controlling one this question is refused. */
    for (int fd = 0; fd < 3; fd++)
        if (tcgetpgrp(fd) != self->pgid) return TERMINAL_SHARED;
    return TERMINAL_FOREGROUND;
}

void tty_remember(void)
{
    if (run.terminal != TERMINAL_FOREGROUND) return;
    for (int fd = 0; fd < 3; fd++) {
        terminal[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        flags[fd] = fcntl(fd, F_GETFL);
        if (terminal[fd] < 0 || flags[fd] < 0) bail(EXIT_NOT_STARTED, "the terminal cannot be kept: %s", strerror(errno));
    }
    if (tcgetattr(0, &modes)) bail(EXIT_NOT_STARTED, "the terminal cannot be asked: %s", strerror(errno));
}

void tty_descriptors(int *three) { memcpy(three, terminal, sizeof terminal); }

/* All signals are blocked, TTOU among them: that is what lets a background group take the terminal. Where the shell has it
 * already (the run was stopped before it began) it stays there. */
int tty_join(void)
{
    if (run.terminal == TERMINAL_NONE) return setsid() < 0 || (run.spec->ctty && ioctl(0, TIOCSCTTY, 0)) ? -1 : 0;
    if (run.terminal == TERMINAL_SHARED) return setpgid(0, run.front_group);
    if (setpgid(0, 0)) return -1;
    if (tcgetpgrp(0) == run.front_group) tcsetpgrp(0, getpid());
    return 0;
}

/* ---- keeper ---- */

void tty_look_at_root(void)
{
    struct board *b = run.board;
    siginfo_t info;
    if (run.terminal == TERMINAL_NONE || !b->root_known || b->root_exited) return;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)b->root.pid, &info, WSTOPPED | WCONTINUED | WNOHANG | __WALL) || !info.si_pid) return;
        b->root_stopped = info.si_code == CLD_STOPPED ? info.si_status : 0;
        if (info.si_code == CLD_STOPPED) b->root_stops++;
        wake_peer();
    }
}

/* A SIGCONT that the root may have had with the front, and another stop since: a key, pressed right after fg. */
bool tty_outdated(const struct message *m)
{
    if (run.terminal != TERMINAL_SHARED || m->signo != SIGCONT || !m->forwarded || m->number < 0) return false;
    tty_look_at_root();
    return run.board->root_known && (!run.board->root_stopped || run.board->root_stops != (uint32_t)m->number);
}

/* ---- front ---- */

static void hand_over(void)
{
    if (run.board->root_known && tcgetpgrp(terminal[0]) == run.front_group) tcsetpgrp(terminal[0], run.board->root_group);
}

static void continue_root(void)
{
    struct message m = {.kind = M_SIGNAL, .signo = SIGCONT, .number = -1, .forwarded = true};
    deliver(&m);
}

/* Nobody above us in this session could continue what is stopped. The kernel then lets no key stop anything; with the keeper
 * here, in a group of its own, it does not see that. */
static bool nobody_could_continue(void)
{
    struct member at, self;
    if (!read_member(getpid(), &self)) return true;
    for (at = self; read_member(at.ppid, &at) && at.session == self.session;)
        if (at.pgid != self.pgid) return false;
    return true;
}

/* The board may be behind: fg continues the root and us at once, and its end may have come since. */
static bool root_stands_still(void)
{
    struct member root;
    return !run.board->root_exited && read_member(run.board->root.pid, &root) && (root.state == 'T' || root.state == 't');
}

/* The shell waits for us, not for the root: it has to see us stopped, and by what. A SIGCONT takes a stop that is pending away
 * (signal(7)); so whoever continues us after the look below is not too early, and nobody has to do it again. */
static void stop_with_root(int signo)
{
    static const struct timespec at_once;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signo);
    signal(signo, SIG_DFL);
    if (signo == SIGSTOP) {
        if (root_stands_still()) kill(getpid(), signo);
        return;
    }
    kill(getpid(), signo);
    if (root_stands_still()) {
        sigprocmask(SIG_UNBLOCK, &one, NULL);            /* here we stand still */
        sigprocmask(SIG_BLOCK, &one, NULL);
    } else sigtimedwait(&one, NULL, &at_once);
}

static void root_stopped(int signo)
{
    if (run.terminal == TERMINAL_FOREGROUND) {
        pid_t owner = tcgetpgrp(terminal[0]);
        if (owner == run.front_group && (signo == SIGTTIN || signo == SIGTTOU)) {
            /* Continued in the background, then brought to the foreground: some shells send nothing for that. */
            hand_over();
            continue_root();
            return;
        }
        if (owner == run.board->root_group) tcsetpgrp(terminal[0], run.front_group);
    }
    if (nobody_could_continue()) {
        hand_over();
        if (run.terminal == TERMINAL_SHARED) kill(-run.front_group, SIGCONT);
        continue_root();
        return;
    }
    flush_lines();                       /* nobody writes them while we stand still */
    stop_with_root(signo);
}

void tty_step(void)
{
    const struct board *b = run.board;
    if (run.terminal == TERMINAL_NONE) return;
    if (b->root_exited && !restored) {
        restored = true;                 /* leftovers have no claim to it; the keys are for us now */
        tty_restore();
    }
    if (b->root_stops == stops_seen) return;
    stops_seen = b->root_stops;
    int signo = b->root_stopped;
    if (signo && b->stage == RUNNING && !b->root_exited) root_stopped(signo);
}

bool tty_took(struct message *m)
{
    const struct board *b = run.board;
    bool key = m->kernel && (m->signo == SIGINT || m->signo == SIGQUIT || m->signo == SIGTSTP);
    if (run.terminal == TERMINAL_SHARED) {
        /* The root has had these with us; of a SIGCONT to the group one cannot see whether it was for both. It is for the
         * stop that we know, and for none that came after it. */
        if (m->signo == SIGCONT) m->number = stops_seen;
        return key || (m->kernel && m->signo == SIGWINCH) ||
               (m->signo == SIGCONT && b->root_known && (!b->root_stopped || b->root_stops != stops_seen));
    }
    if (run.terminal != TERMINAL_FOREGROUND || run.role != FRONT || b->root_exited || (!key && m->signo != SIGCONT)) return false;
    hand_over();
    if (!key) return false;
    struct message pass = *m;            /* pressed before the root had the terminal */
    pass.kind = M_SIGNAL;
    pass.forwarded = true;
    deliver(&pass);
    return true;
}

/* ---- the end ---- */

static void put_back(void)
{
    tcsetattr(terminal[0], TCSANOW, &modes);
    for (int fd = 0; fd < 3; fd++) fcntl(terminal[fd], F_SETFL, flags[fd]);
}

/* The shell is about to take the terminal: what it does not set itself it must find as it was. After that it is too late. */
void tty_front_lost(void)
{
    if (terminal[0] >= 0 && tcgetpgrp(terminal[0]) == run.board->root_group) put_back();
}

/* Not when the shell has it, because the run was in the background, or has been killed: then these are the shell's modes.
 * A group without a process is nobody's: the root's own, or that of a job of a shell that was the root. */
void tty_restore(void)
{
    const struct board *b = run.board;
    pid_t owner = terminal[0] < 0 ? -1 : tcgetpgrp(terminal[0]);
    if (owner < 1) return;
    if (owner != run.front_group && owner != b->root_group && (owner == 1 || !kill(-owner, 0) || errno != ESRCH)) return;
    put_back();
    if (owner != run.front_group) tcsetpgrp(terminal[0], run.front_group);
}
