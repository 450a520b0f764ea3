/* --contain cgroup: a fresh cgroup (version 2) for each run, joined by the child before its exec. cgroup.kill reaches what no
 * signal of ours may (set-uid programs) or can find; removing the directory is the proof that nothing lives in it.
 *
 * Fresh, and joined by a write: a child that is cloned into a cgroup which ever was killed is killed itself (Linux 6.18). */
#include "lastout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

char cgroup_path[4096];                  /* of the run's own; empty without this tier */
uint64_t cgroup_id;
static const char *inside;               /* the part of it that /proc/PID/cgroup shows */
static int directory = -1, procs = -1, events = -1;
static int alive = -1;                   /* held by front and keeper: its hang-up tells the guard that both have gone */

static void post_guard(void);

/* Written before there is something to lose: whoever sweeps up after a crash finds the directory through the record alone.
 * Told twice, before it is made and with the inode that names this one for ever. */
static void contained_line(const char *path)
{
    line_begin("contained");
    line_str("contain", "cgroup");
    line_str("cgroup", path);
    if (cgroup_id) line_int("cgroup_id", (int64_t)cgroup_id);
    else line_null("cgroup_id");
    line_ident("front", &run.board->front);
    line_place();
    line_end();
    record_now();
}

static _Noreturn void cannot(const char *what)
{
    int error = errno;
    if (cgroup_path[0]) rmdir(cgroup_path);
    refuse(EXIT_NOT_STARTED, "failed", "contain", error, "--contain cgroup: %s: %s", what, strerror(error));
}

/* The mount point of cgroup2 whose root is `/`, or our own cgroup namespace's. */
static bool find_mount(char *mount, size_t size)
{
    char line[4096];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char root[1024], at[1024];
        const char *type = strstr(line, " - cgroup2 ");
        found = type && sscanf(line, "%*s %*s %*s %1023s %1023s", root, at) == 2 && !strcmp(root, "/") &&
                snprintf(mount, size, "%s", at) < (int)size;
    }
    if (f) fclose(f);
    return found;
}

static int open_in(const char *name, int how)
{
    int f = openat(directory, name, how | O_CLOEXEC);
    if (f < 0) cannot(name);
    return f;
}

void cgroup_prepare(void)
{
    char mount[1024], text[8192];
    struct stat st;
    if (!find_mount(mount, sizeof mount)) errno = ENOENT, cannot("no cgroup2 file system is mounted");
    const char *own = read_text("/proc/self/cgroup", text, sizeof text) ? strstr(text, "0::/") : NULL;
    if (!own) errno = ENOENT, cannot("/proc/self/cgroup names no cgroup of version 2");
    own += 3;
    int length = (int)strcspn(own, "\n");
    if (length == 1) length = 0;         /* the root: its path is empty */
    int n = snprintf(text + 4096, 4096, "%s%.*s/lastout-%s", mount, length, own, run.spec->run);
    identify(getpid(), &run.board->front);
    contained_line(text + 4096);
    if (mkdir(text + 4096, 0700)) cannot(text + 4096);
    memcpy(cgroup_path, text + 4096, (size_t)n + 1);
    inside = cgroup_path + strlen(mount);
    if ((directory = open(cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || fstat(directory, &st)) cannot(cgroup_path);
    if (flock(directory, LOCK_EX | LOCK_NB)) cannot("lock it");        /* while one of front, keeper and guard lives */
    cgroup_id = st.st_ino;
    contained_line(cgroup_path);
    procs = open_in("cgroup.procs", O_RDWR);
    events = open_in("cgroup.events", O_RDONLY);
    close(open_in("cgroup.kill", O_WRONLY));                 /* Linux 5.14; without it this tier promises too much */
    post_guard();
}

bool cgroup_join(void) { return write(procs, "0", 1) == 1; }

int cgroup_descriptors(int *out)
{
    out[0] = directory;
    out[1] = procs;
    out[2] = events;
    out[3] = alive;
    return 4;
}

int cgroup_events(void) { return events; }

bool cgroup_kill(void)
{
    int f = openat(directory, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    bool ok = f >= 0 && write(f, "1", 1) == 1;
    if (f >= 0) close(f);
    return ok;
}

bool cgroup_holds(pid_t pid)
{
    char path[64], text[8192], *at;
    size_t n = strlen(inside);
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (!read_text(path, text, sizeof text) || !(at = strstr(text, "0::"))) return false;
    at += 3;
    return !strncmp(at, inside, n) && (at[n] == '\n' || at[n] == '/' || !at[n]);
}

/* Programs of the tree may have made cgroups below ours. */
static void each_directory(int dir, int depth, void (*visit)(int dir, void *), void *data, bool remove)
{
    _Alignas(8) char b[2048];
    if (visit) visit(dir, data);
    lseek(dir, 0, SEEK_SET);
    for (long n; depth < 32 && (n = syscall(SYS_getdents64, dir, b, sizeof b)) > 0;)
        for (long at = 0; at < n;) {
            struct { uint64_t ino; int64_t off; unsigned short size; unsigned char type; char name[]; } *d = (void *)(b + at);
            at += d->size;
            if (d->type != DT_DIR || d->name[0] == '.') continue;
            int below = openat(dir, d->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (below < 0) continue;
            each_directory(below, depth + 1, visit, data, remove);
            close(below);
            if (remove) unlinkat(dir, d->name, AT_REMOVEDIR);
        }
}

struct pid_list { pid_t *out; int n, max; };

static void read_procs(int dir, void *data)
{
    struct pid_list *l = data;
    char b[4096];
    int f = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    pid_t pid = 0;
    for (ssize_t n; f >= 0 && (n = read(f, b, sizeof b)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (b[i] >= '0' && b[i] <= '9') pid = pid * 10 + (b[i] - '0');
            else if (pid) {
                if (l->n < l->max) l->out[l->n++] = pid;
                pid = 0;
            }
        }
    if (f >= 0) close(f);
}

int cgroup_members(pid_t *out, int max)
{
    struct pid_list l = {out, 0, max};
    each_directory(directory, 0, read_procs, &l, false);
    return l.n;
}

bool cgroup_remove(void)
{
    if (!rmdir(cgroup_path)) return true;
    each_directory(directory, 0, NULL, NULL, true);
    return !rmdir(cgroup_path) || errno == ENOENT;
}

/* ---- the guard: front and keeper killed in one instant leave it, and it ends the cgroup ---- */

static _Noreturn void stand_guard(int alive)
{
    struct pollfd both = {alive, 0, 0}, change = {events, POLLPRI, 0};
    while (poll(&both, 1, -1) < 0 && errno == EINTR) {}
    if (run.board->final) _exit(0);
    do cgroup_kill();
    while (!cgroup_remove() && poll(&change, 1, 1000) >= 0);
    run.role = GUARD;
    line_begin("tree-gone");
    line_str("proof", "cgroup");
    line_int("remaining", 0);
    line_bool("late", true);
    line_end();
    pump_record();
    _exit(0);
}

/* It holds the lock with them: a free lock must mean that nobody of us is left to end the tree. */
static void post_guard(void)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC)) cannot("pipe");
    run.guard = fork();
    if (run.guard < 0) cannot("fork");
    if (run.guard == 0) {
        int keep[] = {pair[0], run.record, run.lock, run.null, directory, procs, events};
        setsid();
        prctl(PR_SET_NAME, "lastout-guard");
        run.control = -1;
        release_stdio(false);
        close_all_but(keep, sizeof keep / sizeof *keep);
        forget_arguments();
        stand_guard(pair[0]);
    }
    close(pair[0]);
    alive = pair[1];
}

void cgroup_dismiss_guard(void)
{
    if (run.guard <= 0) return;
    kill(run.guard, SIGKILL);
    waitpid(run.guard, NULL, __WALL);
    run.guard = 0;
}
