/* What this kernel has, and what stands in where it has not (down to Linux 4.7).
 *
 *   no pidfds (before 5.3)   a verified number is signalled as a number; the death of the parent comes as a signal, that of an
 *                            owner further up is looked for twice a second
 *   no children files        /proc is listed, and every process asked for its parent
 *
 * -DLASTOUT_OLD_KERNEL builds a program that believes to be on such a kernel, for tests. */
#include "lastout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PID_FS_MAGIC 0x50494446

static bool no_pidfds, no_children_files;

static struct { pid_t pid, ppid; } all[MAX_PIDS];
static int nall;

int pidfd_open_(pid_t pid)
{
#ifdef LASTOUT_OLD_KERNEL
    (void)pid;
    errno = ENOSYS;
    int fd = -1;
#else
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
    if (fd < 0 && errno == ENOSYS) no_pidfds = true;
    return fd;
}

bool has_pidfds(void) { return !no_pidfds; }
bool has_children_files(void) { return !no_children_files; }

int pidfd_signal(int pidfd, pid_t pid, int signo)
{
    if (pidfd < 0) return kill(pid, signo);
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

/* The inode names the process for ever (in this boot) where pidfds have a file system of their own: Linux 6.9. */
uint64_t pidfd_inode(int pidfd)
{
    struct statfs fs;
    struct stat st;
    if (pidfd < 0 || fstatfs(pidfd, &fs) || (uint32_t)fs.f_type != PID_FS_MAGIC || fstat(pidfd, &st)) return 0;
    return st.st_ino;
}

/* Whether the list of own children can be opened says whether there are such lists (CONFIG_PROC_CHILDREN). */
bool children_files_missing(int error)
{
#ifdef LASTOUT_OLD_KERNEL
    error = ENOENT;
#endif
    if (error == ENOENT) no_children_files = true;
    return no_children_files;
}

/* Everybody with its parent, as of now; for the lists that are asked for next. */
bool list_all(void)
{
    _Alignas(8) static char b[16 * 1024];
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    nall = 0;
    for (long n; (n = syscall(SYS_getdents64, fd, b, sizeof b)) > 0;)
        for (long at = 0; at < n;) {
            struct { uint64_t ino; int64_t off; unsigned short size; unsigned char type; char name[]; } *d = (void *)(b + at);
            struct member m;
            at += d->size;
            if (d->name[0] < '1' || d->name[0] > '9' || nall == MAX_PIDS || !read_member(atoi(d->name), &m)) continue;
            all[nall].pid = m.id.pid;
            all[nall++].ppid = m.ppid;
        }
    close(fd);
    return true;
}

int listed_children(pid_t parent, pid_t *out, int max)
{
    int count = 0;
    for (int i = 0; i < nall && count < max; i++)
        if (all[i].ppid == parent) out[count++] = all[i].pid;
    return count;
}
