/* --contain pidns: the root lives in a pid namespace under an init of ours. When that init ends, the kernel ends all that is
 * in it, so this tier also holds when front and keeper are killed in the same instant: the init has the keeper's death as its own.
 *
 * The init reaps and reports; the root is not pid 1 (which would ignore a SIGTERM that it has no handler for), /proc is the
 * namespace's own. Without privilege a user namespace comes with it. */
#include "lastout.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum report_kind { SPAWNED = 1, ROOT_ENDED, ROOT_GONE, OTHERS_LEFT };

struct report {
    enum report_kind kind;
    pid_t pid;                           /* as the namespace counts */
    int status;
    struct rusage usage;
};

static int flags, fd = -1;               /* of clone; the init's end of the socket pair */

static void report(enum report_kind kind, pid_t pid, int status, const struct rusage *usage)
{
    struct report r = {.kind = kind, .pid = pid, .status = status};
    if (usage) r.usage = *usage;
    send(fd, &r, sizeof r, MSG_NOSIGNAL);
}

static bool write_file(const char *path, const char *text)
{
    int f = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = f >= 0 && write(f, text, strlen(text)) == (ssize_t)strlen(text);
    if (f >= 0) close(f);
    return ok;
}

/* Own uid and gid stay what they are; everybody else is nobody, and set-uid bits mean nothing. */
static bool map_ids(uid_t uid, gid_t gid)
{
    char map[64];
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    if (!write_file("/proc/self/uid_map", map)) return false;
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    return write_file("/proc/self/gid_map", map);
}

static bool set_up(uid_t uid, gid_t gid)
{
    struct board *b = run.board;
    b->child_step = "map ids into the user namespace";
    if (flags & CLONE_NEWUSER && !map_ids(uid, gid)) return false;
    b->child_step = "make mounts private";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return false;
    b->child_step = "mount /proc in the pid namespace";
    return !mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Everything that ended, but not the root before the keeper has seen its status and said so. */
static void reap_inside(pid_t root, bool *told, bool release, bool *gone)
{
    static pid_t kids[MAX_PIDS];
    siginfo_t info = {0};
    struct rusage usage;
    int status;
    if (!*told && !waitid(P_PID, (id_t)root, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && info.si_pid == root) {
        *told = true;
        report(ROOT_ENDED, root, wait_status(&info), NULL);
    }
    int n = own_children(kids, MAX_PIDS);
    for (int i = 0; i < n; i++)
        if (kids[i] != root) waitpid(kids[i], NULL, WNOHANG | __WALL);
    if (!release || *gone || syscall(SYS_wait4, root, &status, WNOHANG | __WALL, &usage) != root) return;
    *gone = true;
    report(ROOT_GONE, root, status, &usage);
}

static _Noreturn void serve(pid_t root)
{
    bool told = false, release = false, gone = false, others = false;
    for (;;) {
        struct pollfd p[] = {{run.signals, POLLIN, 0}, {fd, POLLIN, 0}};
        struct signalfd_siginfo s[8];
        char byte;
        reap_inside(root, &told, release, &gone);
        siginfo_t info = {0};
        if (gone && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD) _exit(0);
        if (gone && !others) others = true, report(OTHERS_LEFT, 0, 0, NULL);
        poll(p, 2, -1);
        while (read(run.signals, s, sizeof s) > 0) {}
        if (p[1].revents) {
            ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
            if (n == 0) _exit(0);        /* the keeper has gone: so does all of this */
            if (n > 0) release = true;
        }
    }
}

static int init_main(void *ids_)
{
    const unsigned *ids = ids_;
    struct board *b = run.board;
    char byte;
    close(run.init);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0) _exit(0);        /* ended before that was armed */
    setsid();
    prctl(PR_SET_NAME, "lastout-init");
    if (!set_up(ids[0], ids[1])) {
        b->child_error = errno;
        _exit(EXIT_NOT_STARTED);
    }
    pid_t root = start_child(1, NULL);
    if (root < 0) b->child_error = errno;
    if (b->child_error) _exit(EXIT_NOT_STARTED);
    int keep[] = {run.signals, fd, run.null};
    release_stdio(false);
    close_all_but(keep, 3);
    forget_arguments();
    report(SPAWNED, root, 0, NULL);
    serve(root);
}

/* The pid, as we count, of the init's child that counts itself as `inside`. It cannot be gone: the init holds it. */
static pid_t outer_pid(pid_t init, pid_t inside)
{
    static pid_t kids[MAX_PIDS];
    struct member m = {.id.pid = init, .threads = 1};
    own_children(kids, MAX_PIDS);        /* learns how children are listed here */
    int n = children_of(&m, kids, MAX_PIDS);
    for (int i = 0; i < n; i++) {
        char path[64], text[4096], *at;
        snprintf(path, sizeof path, "/proc/%d/status", (int)kids[i]);
        if (!read_text(path, text, sizeof text) || !(at = strstr(text, "\nNSpid:"))) continue;
        at[1 + strcspn(at + 1, "\n")] = 0;
        if (atoi(strrchr(at, '\t') + 1) == inside) return kids[i];
    }
    return -1;
}

pid_t pidns_start(void)
{
    static _Alignas(16) char stack[64 * 1024];
    unsigned ids[] = {geteuid(), getegid()};
    struct report r;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return -1;
    run.board->child_step = "make a pid namespace";
    run.init = pair[0];                  /* closed in the init, which must see the keeper's end */
    fd = pair[1];
    flags = CLONE_NEWPID | CLONE_NEWNS;
    pid_t pid = clone(init_main, stack + sizeof stack, flags | SIGCHLD, ids);
    if (pid < 0 && errno == EPERM) {
        flags |= CLONE_NEWUSER;
        pid = clone(init_main, stack + sizeof stack, flags | SIGCHLD, ids);
    }
    close(fd);
    if (pid < 0) return -1;
    if (recv(run.init, &r, sizeof r, 0) != sizeof r || r.kind != SPAWNED) {
        waitpid(pid, NULL, __WALL);
        if (!run.board->child_error) run.board->child_error = ECHILD;
        return 0;
    }
    run.board->init.pid = pid;
    identify(pid, &run.board->init);
    return outer_pid(pid, r.pid);
}

/* Below ACK_MS, or the front would think that we stand still. An init that was stopped, or has no processor, reports late. */
int64_t pidns_moment(int reap_ms)
{
    enum { MOMENT_MS = 250 };
    if (run.role == KEEPER) kill(run.board->init.pid, SIGCONT);     /* our child: the number is its own */
    return (reap_ms / 2 < MOMENT_MS ? reap_ms / 2 : MOMENT_MS) * MS;
}

/* What the init tells; true when the root has gone and others have not. */
bool pidns_read(void)
{
    struct report r;
    ssize_t n = recv(run.init, &r, sizeof r, MSG_DONTWAIT);
    if (n <= 0) {
        if (n == 0) close(run.init), run.init = -1;     /* its end comes as a SIGCHLD of ours */
        return false;
    }
    if (r.kind == ROOT_ENDED) {
        note_root_end(r.status);
        send(run.init, "", 1, MSG_NOSIGNAL);
    } else if (r.kind == ROOT_GONE) {
        run.board->root_reaped = true;
        reaped_line("root", run.board->root.pid, r.status, &r.usage);
    }
    return r.kind == OTHERS_LEFT;
}
