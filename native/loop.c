/* One loop for both processes: wait, read every event, let the role take its step. It sleeps without a timer while nothing
 * is due. */
#include "observe.h"
#include "tty.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int deadline_timer = -1;
static int64_t deadline;                 /* CLOCK_BOOTTIME, ns */

int wait_ms(int64_t due, int64_t now)
{
    if (!due) return -1;
    return due <= now ? 0 : (int)((due - now + MS - 1) / MS);
}

int64_t earlier(int64_t a, int64_t b) { return !a ? b : !b || a < b ? a : b; }

/* The other process looks at the board and takes lines; a full socket already holds a wake-up. */
void wake_peer(void)
{
    if (run.peer >= 0) send(run.peer, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void stop_for(enum trigger trigger, const char *which)
{
    struct message m = {.kind = M_STOP, .trigger = trigger, .number = -1};
    if (which) strcpy(m.which, which);
    deliver(&m);
}

/* ---- commands ---- */

static void set_deadline(int64_t at)
{
    struct itimerspec t = {.it_value = {at / 1000000000, at % 1000000000}};
    deadline = at;
    if (deadline_timer < 0) {
        if (!at) return;
        deadline_timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    timerfd_settime(deadline_timer, TFD_TIMER_ABSTIME, &t, NULL);
}

/* The keeper takes messages in microseconds. A full socket is a flood of commands, or a keeper that stands still: that is
 * waited for once, and then the front acts without it. */
static void send_to_keeper(const struct message *m)
{
    static bool stuck;
    struct pollfd p = {run.peer, POLLOUT, 0};
    while (send(run.peer, m, sizeof *m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
        if (!stuck) stuck = poll(&p, 1, FULL_MS) <= 0;
        if (stuck) return;
    }
    stuck = false;
}

void deliver(const struct message *m)
{
    if (!run.driver) {
        /* For the owner the keeper waits itself; here it is only noted that a stop is due. */
        if (m->trigger != OWNER_DIED || !has_pidfds()) send_to_keeper(m);
        if (m->kind == M_STOP) front_asked_to_stop(m);
        return;
    }
    switch (m->kind) {
    case M_STOP:
        if (m->trigger == OWNER_DIED || m->trigger == OWNER_HUNG_UP) observe_lost("owner-lost");
        stop_begin(m);
        break;
    case M_SIGNAL: if (!tty_outdated(m)) forward_signal(m); break;
    case M_DEADLINE: set_deadline(m->number); break;
    case M_LIST: list_line(); wake_peer(); break;
    case M_STOP_OTHERS: others_begin(m), wake_peer(); break;
    case M_ACKNOWLEDGE:
    case M_DROP: observe_command(m->kind), wake_peer(); break;
    }
}

/* ---- signals ---- */

static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

static void take_signal(const struct signalfd_siginfo *s)
{
    int signo = (int)s->ssi_signo;
    bool kernel = s->ssi_code == SI_KERNEL;
    struct message m = {.signo = signo, .number = -1, .has_sender = true, .kernel = kernel,
                        .pid = kernel ? 0 : (pid_t)s->ssi_pid, .uid = s->ssi_uid};
    if (signo == DEATH_SIGNAL) {
        if (run.role == FRONT) owner_may_have_died();
        else if (getppid() != run.board->front.pid) front_is_lost();
        return;
    }
    if (signo == SIGCHLD) {
        run.child_ended = true;
        return;
    }
    if (tty_took(&m)) return;
    if (run.spec->forward >> (signo - 1) & 1) {
        if (run.role == KEEPER || (signo == SIGCONT && run.board->stage > RUNNING)) return;
        m.kind = M_SIGNAL;
        m.forwarded = true;
        deliver(&m);
        return;
    }
    for (size_t i = 0; i < sizeof stop_signals / sizeof *stop_signals; i++)
        if (signo == stop_signals[i]) {
            m.kind = M_STOP;
            m.trigger = SIGNAL;
            deliver(&m);
        }
}

static void take_signals(void)
{
    struct signalfd_siginfo s[8];
    for (ssize_t n; (n = read(run.signals, s, sizeof s)) > 0;)
        for (size_t i = 0; i < (size_t)n / sizeof *s; i++) take_signal(&s[i]);
}

/* ---- events ---- */

enum { AT_ONCE = 32 };                   /* a flood of commands holds up no deadline: poll comes back for the rest */

static void take_peer(void)
{
    struct message m;
    for (int taken = 0; taken < AT_ONCE; taken++) {
        ssize_t n = recv(run.peer, &m, sizeof m, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {                    /* the pidfd and the board say what that means */
            close(run.peer);
            run.peer = -1;
            return;
        }
        if (n == sizeof m && run.driver) deliver(&m);
    }
}

static void take_control(void)
{
    if (control_read(deliver)) return;
    control_hung_up();
    stop_for(OWNER_HUNG_UP, NULL);
}

static void take_deadline(void)
{
    uint64_t times;
    if (read(deadline_timer, &times, sizeof times) <= 0) return;
    int64_t late = boot_ns() - deadline;
    struct message m = {.kind = M_STOP, .trigger = LEASE_EXPIRED, .number = -1,
                        .no_grace = late > LATE_MS * MS};      /* overslept: no time is left for politeness */
    deliver(&m);
}

static void forget_fd(int *fd)
{
    close(*fd);
    *fd = -1;
}

void front_is_lost(void)
{
    if (run.front_pidfd >= 0) forget_fd(&run.front_pidfd);
    run.front_lost = true;
    tty_front_lost();
    if (run.board->stage < UNPROVEN) stop_for(PEER_LOST, "front");
}

enum { SIGNALS, PEER, FRONT_END, OWNER, PARENT, STDIN, CONTROL, DEADLINE, INIT, CGROUP, SOURCES };

static void fill(struct pollfd *p, bool control_waits)
{
    bool ended = run.board->stage >= UNPROVEN;
    bool reads_control = (run.role == FRONT || run.front_lost) && !ended;
    for (int i = 0; i < SOURCES; i++) p[i] = (struct pollfd){-1, POLLIN, 0};
    p[SIGNALS].fd = run.signals;
    p[PEER].fd = run.peer;
    p[FRONT_END].fd = run.front_pidfd;
    p[OWNER].fd = run.owner_pidfd;
    p[PARENT].fd = run.parent_pidfd;
    p[DEADLINE].fd = deadline_timer;
    p[INIT].fd = run.init;
    if (run.driver) p[CGROUP] = (struct pollfd){cgroup_events(), POLLPRI, 0};
    if (run.watch_stdin) p[STDIN] = (struct pollfd){0, POLLRDHUP, 0};
    run.keeper_full = run.keeper_full && !run.driver && run.peer >= 0;
    if (run.keeper_full) reads_control = false, p[PEER].events |= POLLOUT;
    if (reads_control || control_waits) p[CONTROL].fd = run.control;
    p[CONTROL].events = (short)((reads_control ? POLLIN : 0) | (control_waits ? POLLOUT : 0));
}

void loop(bool (*step)(int64_t now), int64_t (*next_due)(void))
{
    bool control_waits = false;
    for (;;) {
        struct pollfd p[SOURCES];
        int64_t now = now_ns();
        if (step(now)) return;
        if (run.role == FRONT || run.front_lost) {
            control_waits = !pump_control();
            if (run.role == FRONT) pump_record();
        }
        fill(p, control_waits);
        if (poll(p, SOURCES, wait_ms(next_due(), now_ns())) < 0) continue;     /* a signal, or no memory for a moment */
        if (p[SIGNALS].revents) take_signals();
        if (p[PEER].revents & POLLOUT) run.keeper_full = false;
        if (p[PEER].revents) take_peer();
        if (p[OWNER].revents) forget_fd(&run.owner_pidfd), stop_for(OWNER_DIED, "owner");
        if (p[PARENT].revents) forget_fd(&run.parent_pidfd), stop_for(OWNER_DIED, run.parent.pid == run.owner.pid ? "owner" : "parent");
        if (p[STDIN].revents) run.watch_stdin = false, stop_for(STDIN_ENDED, NULL);
        if (p[CONTROL].revents & ~POLLOUT) take_control();
        if (p[DEADLINE].revents) take_deadline();
        if (p[INIT].revents) take_init();
        if (p[CGROUP].revents) take_cgroup();
        if (p[FRONT_END].revents) front_is_lost();
    }
}
