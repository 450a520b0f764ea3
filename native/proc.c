/* /proc, read without allocation: one process, its children, the tree below us. Lists of children are hints (a process that
 * ends while the list is read can hide another); ECHILD is the proof. */
#include "lastout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t slurp(const char *path, char *b, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = read(fd, b, size - 1), saved = errno;
    close(fd);
    errno = (int)saved;
    if (n >= 0) b[n] = 0;
    return n;
}

bool parse_member(const char *stat, pid_t pid, struct member *m)
{
    const char *open_ = strchr(stat, '('), *close_ = strrchr(stat, ')');   /* the name may hold anything, also ')' and newlines */
    if (!open_ || !close_ || close_ < open_ || close_[1] != ' ' || !close_[2]) return false;
    size_t n = (size_t)(close_ - open_ - 1);
    if (n >= sizeof m->name) n = sizeof m->name - 1;
    memcpy(m->name, open_ + 1, n);
    m->name[n] = 0;
    const char *p = close_ + 2;
    m->id.pid = pid;
    m->in_cgroup = false;
    m->id.inode = 0;
    m->uid = 0;
    m->state = *p++;
    long long f[23];
    for (int i = 4; i <= 22; i++) {                              /* numbered as in proc(5) */
        char *end;
        f[i] = strtoll(p, &end, 10);
        if (end == p) return false;
        p = end;
    }
    m->ppid = (pid_t)f[4];
    m->pgid = (pid_t)f[5];
    m->session = (pid_t)f[6];
    m->tty = (int)f[7];
    m->threads = (int)f[20];
    m->id.start = (uint64_t)f[22];
    return true;
}

#define PF_EXITING 0x4
#define PF_SIGNALED 0x400

/* Whether it has a SIGKILL to die of, or is on its way out: it will do nothing more. What is pending is asked first, since a
 * signal is taken from there before the way out shows. */
bool is_dying(pid_t pid)
{
    static const char *const pending[] = {"\nSigPnd:", "\nShdPnd:"};
    char path[64], b[4096];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (slurp(path, b, sizeof b) <= 0) return true;
    for (int i = 0; i < 2; i++) {
        const char *p = strstr(b, pending[i]);
        if (p && (strtoull(p + strlen(pending[i]), NULL, 16) >> (SIGKILL - 1)) & 1) return true;
    }
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (slurp(path, b, sizeof b) <= 0) return true;
    const char *p = strrchr(b, ')');
    return p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & (PF_EXITING | PF_SIGNALED);
}

bool read_member(pid_t pid, struct member *m)
{
    char path[64], b[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return slurp(path, b, sizeof b) > 0 && parse_member(b, pid, m);
}

bool identify(pid_t pid, struct ident *id)
{
    struct member m;
    if (!read_member(pid, &m)) return false;
    int fd = pidfd_open_(pid);
    *id = m.id;
    id->inode = pidfd_inode(fd);
    if (fd >= 0) close(fd);
    return true;
}

/* State Z of the leader is not death while another thread runs. */
bool dead(const struct member *m) { return (m->state == 'Z' && m->threads <= 1) || m->state == 'X'; }

static int children_file(const char *path, pid_t *out, int max)
{
#ifdef LASTOUT_OLD_KERNEL
    path = "/proc/self/no-such-file";
#endif
    char b[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC), count = 0;
    if (fd < 0) return -1;
    pid_t pid = 0;
    ssize_t n;
    while ((n = read(fd, b, sizeof b)) > 0 || (n < 0 && errno == EINTR))
        for (ssize_t i = 0; i < n; i++) {
            if (b[i] >= '0' && b[i] <= '9') pid = pid * 10 + (b[i] - '0');
            else if (pid) {
                if (count < max) out[count++] = pid;
                pid = 0;
            }
        }
    close(fd);
    return n < 0 ? -1 : count;
}

/* -1: the list could not be read, which says nothing about what would be in it. */
int own_children(pid_t *out, int max)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int count = has_children_files() ? children_file(path, out, max) : -1;
    if (count >= 0 || !children_files_missing(errno)) return count;
    return list_all() ? listed_children(getpid(), out, max) : -1;
}

/* Every thread has children of its own. */
int children_of(const struct member *m, pid_t *out, int max)
{
    char path[96];
    if (!has_children_files()) return listed_children(m->id.pid, out, max);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)m->id.pid, (int)m->id.pid);
    int count = children_file(path, out, max);
    if (count < 0) count = 0;
    if (m->threads <= 1) return count;
    snprintf(path, sizeof path, "/proc/%d/task", (int)m->id.pid);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return count;
    _Alignas(8) char b[2048];
    for (long n; (n = syscall(SYS_getdents64, fd, b, sizeof b)) > 0;)
        for (long at = 0; at < n;) {
            struct { uint64_t ino; int64_t off; unsigned short size; unsigned char type; char name[]; } *d = (void *)(b + at);
            at += d->size;
            if (d->name[0] == '.' || atoi(d->name) == m->id.pid) continue;
            snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)m->id.pid, atoi(d->name));
            int more = children_file(path, out + count, max - count);
            if (more > 0) count += more;
        }
    close(fd);
    return count;
}

static void read_uid(struct member *m)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", (int)m->id.pid);
    if (!stat(path, &st)) m->uid = st.st_uid;
}

bool is_foreign(pid_t pid)
{
    if (pid == run.scribe || (run.guard > 0 && pid == run.guard) || (run.role == FRONT && pid == run.keeper)) return true;
    for (int i = 0; i < run.foreigns; i++)
        if (run.foreign[i] == pid) return true;
    return false;
}

static struct { pid_t pid; uint64_t parent_start; } queue[MAX_PIDS];
static pid_t few[MAX_PIDS];

static int enqueue(int tail, const pid_t *pids, int n, uint64_t parent_start)
{
    for (int i = 0; i < n && tail < MAX_PIDS; i++, tail++) {
        queue[tail].pid = pids[i];
        queue[tail].parent_start = parent_start;
    }
    return tail;
}

/* Whoever is in the run's cgroup and was not found below us. */
static void walk_cgroup(void (*visit)(const struct member *, void *), void *data, int known)
{
    int n = cgroup_members(few, MAX_PIDS);
    for (int i = 0; i < n; i++) {
        struct member m;
        int k = 0;
        while (k < known && queue[k].pid != few[i]) k++;
        if (k < known || !read_member(few[i], &m) || dead(&m) || !cgroup_holds(few[i])) continue;
        m.in_cgroup = true;
        read_uid(&m);
        visit(&m, data);
    }
}

/* Parents before children; below a process that ended meanwhile nothing is lost: its children are ours by now, and the next
 * walk finds them. False: the list did not hold everything. */
bool walk_tree(void (*visit)(const struct member *, void *), void *data, int how)
{
    int tail = enqueue(0, few, own_children(few, MAX_PIDS), 0);
    for (int head = 0; head < tail; head++) {
        struct member m;
        if (is_foreign(queue[head].pid) || !read_member(queue[head].pid, &m)) continue;
        m.parent_start = queue[head].parent_start;
        bool wanted = (!dead(&m) || how == WALK_DEAD_TOO) && queue[head].pid != run.board->init.pid;
        if (how == WALK_VISIT_FIRST && wanted) visit(&m, data);
        tail = enqueue(tail, few, children_of(&m, few, MAX_PIDS), m.id.start);
        if (how == WALK_VISIT_FIRST || !wanted) continue;
        read_uid(&m);
        visit(&m, data);
    }
    if (cgroup_path[0]) walk_cgroup(visit, data, tail);
    return tail < MAX_PIDS;
}

/* A number that was read is not yet a process: pin it, then look again whether it is still the same one in the same place, and
 * whether that place is still below the same parent. An orphan may have become our own child; any other new parent would be
 * one that we never looked at. */
static bool pinned_in_place(const struct member *m)
{
    struct member again, parent;
    if (!read_member(m->id.pid, &again) || again.id.start != m->id.start) return false;
    if (m->in_cgroup) return cgroup_holds(m->id.pid);
    if (again.ppid == getpid()) return true;
    return again.ppid == m->ppid && read_member(m->ppid, &parent) && parent.id.start == m->parent_start;
}

/* Own children need no pin: nobody else can reap them, so their numbers stay theirs. The first signal is what is told: whoever
 * died of it, and was reaped by its parent before the next one, was signalled. */
int signal_member(const struct member *m, const int *signals, int count)
{
    int error = 0, pidfd = -1;
    if (m->id.pid <= 1) return EPERM;
    if (m->ppid != getpid()) {
        if ((pidfd = pidfd_open_(m->id.pid)) < 0 && has_pidfds()) return errno;
        if (!pinned_in_place(m)) error = ESRCH;
    }
    for (int i = 0; i < count && !error; i++)
        if (pidfd_signal(pidfd, m->id.pid, signals[i])) {
            if (!i || errno != ESRCH) error = errno;
            break;
        }
    if (pidfd >= 0) close(pidfd);
    return error;
}
