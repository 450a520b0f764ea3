/* The keeper: parent of the root, owner of the ladder. It touches no file while anything of the tree lives. */
#include "observe.h"
#include "tty.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#define PIPEFS_MAGIC 0x50495045

/* Whether a hang-up of stdin is the owner's last word. A named FIFO gets new writers; files never end. */
static bool stdin_can_end(void)
{
    struct stat st;
    struct statfs fs;
    struct termios modes;
    if (!run.spec->stdin_stops || fstat(0, &st)) return false;
    if (S_ISFIFO(st.st_mode)) return !fstatfs(0, &fs) && (uint32_t)fs.f_type == PIPEFS_MAGIC;
    return S_ISSOCK(st.st_mode) || !tcgetattr(0, &modes) || (S_ISCHR(st.st_mode) && errno == EIO);    /* it has hung up already */
}

/* NULL when the keeper is what it must be before there may be a root. */
static const char *prepare(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1)) return "PR_SET_CHILD_SUBREAPER";
    prctl(PR_SET_NAME, "lastout-keeper");
    /* A caller's kill of its group, or of its terminal's, must not reach us. */
    if (run.terminal == TERMINAL_NONE ? setsid() < 0 : setpgid(0, 0)) return "leave the caller's group";
    return NULL;
}

static _Noreturn void end_without_root(void)
{
    wake_peer();
    _exit(0);
}

/* A host that kills its whole group takes the front with it, and it dies slower than a tree can be stopped. Then the lines
 * are ours to write. */
static bool killed_with_its_owner(void)
{
    const struct board *b = run.board;
    struct pollfd p = {run.front_pidfd, POLLIN, 0};
    bool owner_gone = b->trigger == OWNER_DIED || b->trigger == OWNER_HUNG_UP || b->trigger == STDIN_ENDED;
    return owner_gone && is_dying(b->front.pid) && poll(&p, 1, FLUSH_MS) == 1;
}

_Noreturn void keeper_main(void)
{
    struct board *b = run.board;
    run.role = KEEPER;
    run.driver = true;
    if (run.spec->observe) b->observing = OBSERVE_ARMED;
    const char *wrong = prepare();
    if (wrong) not_started(wrong, errno), end_without_root();
    if (getppid() != b->front.pid) _exit(EXIT_NOT_STARTED);     /* the front has gone already: nothing was started */
    b->keeper.pid = getpid();
    if (run.spec->timeout_ms >= 0) run.timeout_due = now_ns() + run.spec->timeout_ms * MS;
    if (!spawn_root()) end_without_root();
    /* From here on the root runs; what only the record wants comes now. */
    run.front_pidfd = pidfd_open_(b->front.pid);
    if (run.front_pidfd < 0) prctl(PR_SET_PDEATHSIG, DEATH_SIGNAL);
    run.owner_by_signal = false;         /* that one is the front's */
    if (getppid() != b->front.pid) run.front_lost = true;
    run.watch_stdin = stdin_can_end();
    release_stdio(run.watch_stdin);
    wake_peer();
    release_descriptors();
    identify(getpid(), &b->keeper);
    if (lines_wanted()) {
        b->root.inode = pidfd_inode(run.root_pidfd);
        b->front.inode = pidfd_inode(run.front_pidfd);
        started_line();
        wake_peer();
    }
    close(run.root_pidfd);
    forget_arguments();
    run.child_ended = true;              /* look once: it may have ended already */
    if (run.front_lost) front_is_lost();
    loop(drive_step, drive_next_due);
    if (!run.front_lost && lines_wanted() && killed_with_its_owner()) run.front_lost = true;
    if (run.front_lost) {
        tty_restore();
        pump_control();
        pump_record();
    }
    /* Our parent, which could not end while it is stopped. Always: a SIGSTOP on its way is not to be seen, but it is undone. */
    if (!run.front_lost && getppid() == b->front.pid) pidfd_signal(run.front_pidfd, b->front.pid, SIGCONT);
    _exit(0);
}
