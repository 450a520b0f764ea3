/* lastout-supervisor: everything before there is a root, in the order that matters. */
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct run run = {.signals = -1, .peer = -1, .control = -1, .record = -1, .lock = -1, .null = -1, .front_pidfd = -1, .root_pidfd = -1, .init = -1,
                  .owner_pidfd = -1, .parent_pidfd = -1};

static struct spec spec;

/* A free number below 3 would go to the next thing that is opened, and be closed or written as standard output. */
static void open_stdio(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd < 3 && !fcntl(fd, F_SETFD, 0));
    if (fd < 0) bail(EXIT_NOT_STARTED, "/dev/null: %s", strerror(errno));
    run.null = fd;
}

/* Ignored HUP, INT and QUIT stay ignored (nohup, a background job of a script); all else that can be caught is blocked and
 * read from a descriptor. TERM always arrives. */
static void take_signals_over(void)
{
    static const int kept[] = {SIGHUP, SIGINT, SIGQUIT};
    struct sigaction old;
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (!sigaction(kept[i], NULL, &old) && old.sa_handler == SIG_IGN) {
            run.ignored |= 1ull << (kept[i] - 1);
            sigdelset(&all, kept[i]);
        }
    signal(SIGCHLD, SIG_DFL);            /* inherited as ignored, the kernel would reap and no status would ever come */
    if (sigprocmask(SIG_SETMASK, &all, NULL)) bail(EXIT_NOT_STARTED, "sigprocmask: %s", strerror(errno));
    run.signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    if (run.signals < 0) bail(EXIT_NOT_STARTED, "signalfd: %s", strerror(errno));
}

static void take_control_socket(void)
{
    int type;
    socklen_t size = sizeof type;
    if (spec.control < 0) return;
    if (getsockopt(spec.control, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM)
        bail(EXIT_NOT_STARTED, "--control: descriptor %d is not a stream socket", spec.control);
    fcntl(spec.control, F_SETFD, FD_CLOEXEC);
    run.control = spec.control;
}

static void note_inherited_children(void)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD) return;
    run.foreigns = own_children(run.foreign, NAMED);
    if (run.foreigns < 0) bail(EXIT_NOT_STARTED, "inherited children cannot be listed: %s", strerror(errno));
    if (run.foreigns == NAMED) bail(EXIT_NOT_STARTED, "too many inherited children");
}

static void make_board(const struct member *self)
{
    run.board = mmap(NULL, sizeof *run.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.board == MAP_FAILED) bail(EXIT_NOT_STARTED, "mmap: %s", strerror(errno));
    ring_init(run.board);
    run.board->front = self->id;
}

int main(int argc, char **argv)
{
    pid_t first_parent = getppid();
    struct member self;
    int pair[2];
    open_stdio();
    take_signals_over();
    spec_parse(&spec, argc, argv);
    run.spec = &spec;
    if (!read_member(getpid(), &self)) bail(EXIT_NOT_STARTED, "/proc is not mounted or shows another pid namespace");
    run.terminal = terminal_case(&spec, &self);
    run.front_group = self.pgid;
    tty_remember();
    take_control_socket();
    make_board(&self);
    if (spec.record) {
        char why[160];
        run.record = record_open(spec.record, why, sizeof why);
        if (run.record < 0) bail(EXIT_NOT_STARTED, "record %s: %s", spec.record, why);
    }
    if (spec.lock) lock_take(&spec);
    owner_find(first_parent);
    note_inherited_children();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) && getpid() != 1) bail(EXIT_NOT_STARTED, "PR_SET_CHILD_SUBREAPER: %s", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        refuse(EXIT_NOT_STARTED, "failed", "setup", errno, "socketpair: %s", strerror(errno));
    remember_arguments(argc, argv);
    if (spec.contain == CONTAIN_CGROUP) cgroup_prepare();
    run.keeper = fork();
    if (run.keeper < 0) refuse(EXIT_NOT_STARTED, "failed", "fork", errno, "not started: fork: %s", strerror(errno));
    run.peer = pair[run.keeper ? 0 : 1];
    close(pair[run.keeper ? 1 : 0]);
    if (run.keeper) forget_arguments(), front_main();
    run.keeper = 0;
    keeper_main();
}
