/* From the keeper to the executed root. */
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static pid_t parent_pid;                 /* the keeper, or the init in a pid namespace */

static void close_from(int low, int high)
{
    if (low > high) return;
    if (!syscall(SYS_close_range, (unsigned)low, (unsigned)high, 0)) return;
    for (int fd = low; fd <= high && fd < 65536; fd++) close(fd);
}

static void sort(int *a, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i, t; j && a[j - 1] > a[j]; j--) t = a[j], a[j] = a[j - 1], a[j - 1] = t;
}

/* Close all above 2 but those: the root has what it inherited, and a copy here would hide the end of a pipe. */
void close_all_but(int *keep, int n)
{
    int next = 3;
    sort(keep, n);
    for (int i = 0; i < n; i++) {
        if (keep[i] < next) continue;
        close_from(next, keep[i] - 1);
        next = keep[i] + 1;
    }
    close_from(next, INT_MAX);
}

void release_descriptors(void)
{
    int keep[] = {run.signals, run.peer, run.control, run.record, run.lock, run.null, run.front_pidfd, run.root_pidfd, run.owner_pidfd,
                  run.parent_pidfd, run.init, -1, -1, -1, -1, -1, -1, -1};
    tty_descriptors(&keep[sizeof keep / sizeof *keep - 7]);
    cgroup_descriptors(&keep[sizeof keep / sizeof *keep - 4]);
    close_all_but(keep, sizeof keep / sizeof *keep);
}

/* As execvp, but on the stack: a shell runs what has no magic number, a directory in PATH that cannot be read is passed over. */
static void execute(const char *file, char *const argv[], int argc)
{
    static char path[PATH_MAX];
    const char *p = getenv("PATH");
    bool denied = false;
    if (strchr(file, '/') || !*file) {
        execve(file, argv, environ);
        p = NULL;
        snprintf(path, sizeof path, "%s", file);
    }
    if (!p && !strchr(file, '/')) p = "/usr/local/bin:/bin:/usr/bin";
    for (; p; p = *p ? p + 1 : NULL) {
        int n = (int)strcspn(p, ":");
        if (snprintf(path, sizeof path, "%.*s%s%s", n, p, n ? "/" : "", file) < (int)sizeof path) {
            execve(path, argv, environ);
            if (errno == ENOEXEC) break;
            if (errno == EACCES) denied = true;
            else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV && errno != ETIMEDOUT) return;
        }
        p += n;
        if (!*p) {
            errno = denied ? EACCES : ENOENT;
            return;
        }
    }
    if (errno == ENOEXEC && argc < 4096) {
        char *shell[4098];
        shell[0] = (char *)"sh";
        shell[1] = path;
        for (int i = 1; i <= argc; i++) shell[i + 1] = argv[i];
        execve("/bin/sh", shell, environ);
        errno = ENOEXEC;
    }
}

/* By the system call: a C library keeps two or three signals for itself and refuses them here, and posix_spawn of glibc leaves
 * those ignored in whatever it starts (make does, for one). All zero is the kernel's SIG_DFL without flags. */
static int signals_to_default(void)
{
    static const unsigned long dfl[8];
    sigset_t empty;
    for (int s = 1; s <= 64; s++)
        if (s != SIGKILL && s != SIGSTOP && !(run.ignored & 1ull << (s - 1))) syscall(SYS_rt_sigaction, s, dfl, NULL, 8);
    sigemptyset(&empty);
    return sigprocmask(SIG_SETMASK, &empty, NULL);
}

#define TRY(step, call) do { run.board->child_step = (step); if (call) goto failed; } while (0)

static int child(void *unused)
{
    const struct spec *s = run.spec;
    (void)unused;
    TRY("session", tty_join());
    TRY("reset the signals", signals_to_default());
    if (s->contain == CONTAIN_CGROUP) TRY("join the cgroup", !cgroup_join());
    for (int i = 0; i < s->nlimits; i++) {
        struct rlimit l = {(rlim_t)s->limits[i].soft, (rlim_t)s->limits[i].hard};
        TRY("setrlimit", setrlimit(s->limits[i].resource, &l));
    }
    if (s->set_groups) TRY("setgroups", syscall(SYS_setgroups, s->ngroups, s->groups));
    if (s->set_gid) TRY("setgid", syscall(SYS_setresgid, s->gid, s->gid, s->gid));
    if (s->set_uid) TRY("setuid", syscall(SYS_setresuid, s->uid, s->uid, s->uid));
    if (s->chdir) TRY("chdir", chdir(s->chdir));
    if (s->set_umask) umask(s->umask);
    if (s->close_fds) {
        int keep[64];
        memcpy(keep, s->keep, sizeof keep);
        for (int i = 0; i < s->keeps; i++) fcntl(keep[i], F_SETFD, 0);
        close_all_but(keep, s->keeps);
    }
    /* Last: a change of credentials clears it. The keeper has one thread, so its end is what this waits for; it may have
     * ended before it was armed. */
    TRY("prctl", prctl(PR_SET_PDEATHSIG, SIGKILL));
    if (getppid() != parent_pid) _exit(EXIT_NOT_STARTED);
    run.board->child_step = "exec";
    if (s->argv0) {
        char *argv0 = s->argv[0];
        s->argv[0] = (char *)s->argv0;
        execute(argv0, s->argv, s->argc);
        run.board->child_error = errno;  /* memory is shared until the exec: put back what the record will read */
        s->argv[0] = argv0;
        _exit(EXIT_CANNOT_EXEC);
    }
    execute(s->argv[0], s->argv, s->argc);
failed:
    run.board->child_error = errno;
    _exit(EXIT_CANNOT_EXEC);
}

/* The child runs in our memory, on a stack of its own, while we wait: nothing is copied. (Not under a sanitizer, whose
 * shadow of the stack would be shared as well; there memory is copied, and the board carries the error all the same.) */
#if defined(__SANITIZE_ADDRESS__)
enum { SHARE = 0 };
#else
enum { SHARE = CLONE_VM };
#endif

pid_t start_child(pid_t parent, int *pidfd)
{
    static _Alignas(16) char stack[96 * 1024];
    parent_pid = parent;
    return clone(child, stack + sizeof stack, SHARE | CLONE_VFORK | (pidfd && has_pidfds() ? CLONE_PIDFD : 0) | SIGCHLD, NULL, pidfd);
}

/* The last word of a run that has no root. */
void not_started(const char *step, int error)
{
    struct board *b = run.board;
    bool exec = !strcmp(step, "exec"), enter = !strcmp(step, "chdir"), contain = strstr(step, "namespace") || strstr(step, "cgroup");
    snprintf(b->exec_error, sizeof b->exec_error, exec ? "cannot execute '%.200s': %s" : enter ? "cannot enter '%.200s': %s" : "not started: %.200s: %s",
             exec ? run.spec->argv[0] : enter ? run.spec->chdir : step, strerror(error));
    line_begin("failed");
    line_str("reason", exec ? "exec" : !strcmp(step, "fork") ? "fork" : contain ? "contain" : "setup");
    line_str("step", step);
    line_int("errno", error);
    line_str("message", b->exec_error);
    line_ident("front", &b->front);
    command_fields();
    line_end();
    b->exit_status = !exec ? EXIT_NOT_STARTED : error == ENOENT || error == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
    b->final = true;
    b->stage = DONE;
}

bool spawn_root(void)
{
    struct board *b = run.board;
    const struct spec *s = run.spec;
    int pidfd = -1, clone_error;
    pid_t pid = -1;
    b->child_error = 0;
    b->child_step = "note in the lock file";
    if (run.lock < 0 || lock_note()) {
        b->child_step = "fork";
        pid = s->contain == CONTAIN_PIDNS ? pidns_start() : start_child(getpid(), &pidfd);
    }
    clone_error = errno;
    if (pid > 0 && !b->child_error) {
        struct member m;
        b->root = (struct ident){pid, 0, 0};
        run.root_pidfd = pidfd;
        if (read_member(pid, &m)) b->root.start = m.id.start;
        b->root_group = run.terminal == TERMINAL_SHARED ? 0 : pid;
        b->root_known = true;
        b->stage = RUNNING;
        return true;
    }
    if (pid > 0 && run.init < 0) waitpid(pid, NULL, __WALL);
    if (cgroup_path[0]) cgroup_remove();
    not_started(b->child_step, b->child_error ? b->child_error : clone_error);
    return false;
}
