/* Whose death ends the run, and the lock: both before anything is started. */
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
#include <unistd.h>

static _Noreturn void refuse_owner(const char *what)
{
    refuse(EXIT_UNPROVEN, "refused", "owner", 0, "%s; for a run that is meant to outlive its starter say --owner none", what);
}

/* The parent of `child`, pinned where there are pidfds, and still its parent afterwards: a link is real only when seen with both
 * ends alive. */
static bool pin_parent(const struct member *child, struct member *parent, int *fd)
{
    struct member again;
    *fd = pidfd_open_(child->ppid);
    if (*fd < 0 && has_pidfds()) return false;
    if (read_member(child->ppid, parent) && read_member(child->id.pid, &again) && again.ppid == child->ppid &&
        again.id.start == child->id.start) {
        parent->id.inode = pidfd_inode(*fd);
        return true;
    }
    if (*fd >= 0) close(*fd);
    return false;
}

/* Walks up from our parent. uv, npx, sudo or a shell may sit between: any ancestor will do. */
static bool find_told(const struct ident *owner, struct member at)
{
    for (int depth = 0; depth < 1024 && at.ppid > 0; depth++) {
        struct member up;
        int fd;
        if (!pin_parent(&at, &up, &fd)) return false;
        if (up.id.pid == owner->pid && up.id.start == owner->start) {
            run.owner = up.id;
            run.owner_pidfd = fd;
            run.owner_by_look = fd < 0 && up.id.pid != run.parent.pid;
            return true;
        }
        if (fd >= 0) close(fd);
        at = up;
    }
    return false;
}

void owner_find(pid_t first_parent)
{
    const struct spec *s = run.spec;
    struct member self;
    run.owner_watch = "none";
    if (s->owner_none) return;
    if (first_parent == 0 && s->owner_told) refuse_owner("the owner cannot be seen from this pid namespace");
    /* 0: the parent lives in another pid namespace; 1, untold: the end of init is nobody's wish to stop this run. */
    if (first_parent == 0 || (first_parent == 1 && !s->owner_told)) return;
    run.parent.pid = first_parent;
    run.parent_pidfd = pidfd_open_(first_parent);
    run.owner_by_signal = run.parent_pidfd < 0 && !has_pidfds() && !prctl(PR_SET_PDEATHSIG, DEATH_SIGNAL);
    if ((run.parent_pidfd < 0 && !run.owner_by_signal) || getppid() != first_parent)
        refuse_owner("the parent ended before the start");
    if (!s->owner_told) {
        run.owner_watch = "parent";
        return;
    }
    run.owner_watch = "told";
    if (!read_member(getpid(), &self) || !find_told(&s->owner, self))
        refuse_owner("the owner is not an ancestor of this process");
    /* One watch will do where both are the same; and init, which adopts, is watched only when it is the owner. */
    if ((run.owner.pid == first_parent || first_parent == 1) && run.parent_pidfd >= 0) {
        close(run.parent_pidfd);
        run.parent_pidfd = -1;
    }
}

/* Without a pidfd: the parent's death signal also comes when only the thread of it ended that had forked us. */
void owner_may_have_died(void)
{
    if (!run.owner_by_signal || getppid() == run.parent.pid) return;
    run.owner_by_signal = false;
    stop_for(OWNER_DIED, run.parent.pid == run.owner.pid || !run.spec->owner_told ? "owner" : "parent");
}

void owner_look(void)
{
    struct member m;
    if (read_member(run.owner.pid, &m) && m.id.start == run.owner.start && !dead(&m)) return;
    run.owner_by_look = false;
    stop_for(OWNER_DIED, "owner");
}

/* The front lives, is the one that we know, and its parent is the one that we know. */
static bool front_has_parent(void)
{
    const struct ident *front = &run.board->front;
    struct member m;
    return read_member(front->pid, &m) && m.id.start == front->start && m.ppid == run.parent.pid && !dead(&m);
}

/* Not needed before the root runs, so it does not hold it up. The parent is pinned, or still the front's parent afterwards:
 * while it lives, its number is its own. */
void owner_identify(void)
{
    struct pollfd p = {run.parent_pidfd, POLLIN, 0};
    struct member m;
    if ((run.parent_pidfd >= 0 || !has_pidfds()) && read_member(run.parent.pid, &m) &&
        (run.parent_pidfd < 0 ? front_has_parent() : !poll(&p, 1, 0))) {
        run.parent = m.id;
        run.parent.inode = pidfd_inode(run.parent_pidfd);
    } else if (run.owner_pidfd >= 0 && run.owner.pid == run.parent.pid) run.parent = run.owner;
    if (!run.spec->owner_told) run.owner = run.parent;
}

/* Refused, too, when a newer epoch was granted: whoever grants one creates its file first and looks at the older locks
 * afterwards, so either we see the file or our lock is seen. */
void lock_take(const struct spec *s)
{
    struct stat st;
    char dir[4096];
    const char *slash = strrchr(s->lock, '/'), *fs;
    size_t n = slash ? (size_t)(slash - s->lock) + 1 : 0;
    run.lock = open(s->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
    if (run.lock < 0) refuse(EXIT_NOT_STARTED, "refused", "lock", errno, "lock %s: %s", s->lock, strerror(errno));
    if (fstat(run.lock, &st) || !S_ISREG(st.st_mode))
        refuse(EXIT_NOT_STARTED, "refused", "lock", 0, "lock %s: not a regular file", s->lock);
    if ((fs = network_fs(run.lock)))
        refuse(EXIT_NOT_STARTED, "refused", "lock", 0, "lock %s: on a %s file system; a lock must be on a local one", s->lock, fs);
    if (flock(run.lock, LOCK_EX | LOCK_NB))
        refuse(EXIT_NOT_STARTED, "refused", "lock", errno, errno == EWOULDBLOCK ? "lock %s is held: an earlier run lives"
                                                                                  : "lock %s cannot be taken", s->lock);
    if (n >= sizeof dir) refuse(EXIT_NOT_STARTED, "refused", "lock", ENAMETOOLONG, "lock: the path is too long");
    memcpy(dir, n ? s->lock : "./", n ? n : 2);
    dir[n ? n : 2] = 0;
    DIR *d = opendir(dir);
    if (!d) refuse(EXIT_NOT_STARTED, "refused", "lock", errno, "lock directory %s: %s", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        size_t digits = strspn(e->d_name, "0123456789");
        if (digits && !e->d_name[digits] && strtoll(e->d_name, NULL, 10) > s->epoch)
            refuse(EXIT_NOT_STARTED, "refused", "epoch", 0, "epoch %lld is superseded: %s was granted since", (long long)s->epoch,
                   e->d_name);
    }
    closedir(d);
}

/* The keeper leaves one line in the lock file just before it executes the root: who holds the lock. When front and keeper die
 * before a `started` line is written, this line is all that is left of them; where it is missing no root was ever executed at
 * this epoch. So nothing is executed when it cannot be written. */
bool lock_note(void)
{
    struct board *b = run.board;
    char text[256];
    int fd = pidfd_open_(b->front.pid);
    b->front.inode = pidfd_inode(fd);
    if (fd >= 0) close(fd);
    identify(getpid(), &b->keeper);
    int n = snprintf(text, sizeof text, "{\"event\":\"executing\",\"front\":{\"pid\":%d,\"start\":%llu,\"inode\":%llu},"
                     "\"keeper\":{\"pid\":%d,\"start\":%llu,\"inode\":%llu}}\n", b->front.pid,
                     (unsigned long long)b->front.start, (unsigned long long)b->front.inode, b->keeper.pid,
                     (unsigned long long)b->keeper.start, (unsigned long long)b->keeper.inode);
    if (lseek(run.lock, 0, SEEK_END) < 0) return false;
    ssize_t written = write(run.lock, text, (size_t)n);
    if (written >= 0 && written < n) errno = ENOSPC;
    return written == n;
}
