/* Where lines go: a ring in shared memory, from there to the control socket and to the record file.
 *
 * The ring is shared so that neither process takes lines with it when it is killed: the other one sees how far they were
 * sent and written. A line can so be sent twice (killed between the send and the note of it), never lost in silence;
 * readers drop a (from, seq) that they have seen.
 *
 * The file is written by a short-lived child, the scribe: a write to a frozen file system cannot be interrupted, not even
 * by SIGKILL, and no stop may wait for it. */
#include "observe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOR_CONTROL = 1, FILLER = 2 };

struct entry { uint32_t size, flags; };

static struct ring *const none = NULL;
static bool control_gone;
static uint32_t control_dropped, told_control, told_record, told_ring;

bool lines_wanted(void) { return run.record >= 0 || run.control >= 0; }

void ring_init(struct board *b)
{
    b->keeper_ring.size = KEEPER_RING;
    b->front_ring.size = FRONT_RING;
    b->front_ring.offset = KEEPER_RING;
}

static struct ring *ring_at(int i) { return i == 0 ? &run.board->keeper_ring : i == 1 ? &run.board->front_ring : none; }

static char *bytes(const struct ring *r, uint64_t position) { return run.board->bytes + r->offset + position % r->size; }

static uint64_t after(const struct ring *r, uint64_t position)
{
    struct entry e;
    memcpy(&e, bytes(r, position), sizeof e);
    return position + sizeof e + ((e.size + 7u) & ~7u);
}

void ring_put(const char *line, size_t size, bool control_only)
{
    struct ring *r = ring_at(run.role == FRONT);
    uint64_t head = r->head, tail = r->sent < r->written ? r->sent : r->written;
    uint64_t need = sizeof(struct entry) + ((size + 7) & ~(uint64_t)7), to_end = r->size - head % r->size;
    uint64_t filler = need > to_end ? to_end : 0;
    /* Answers that nobody reads must leave room for the facts of the record. */
    if (head + filler + need - tail > (control_only ? r->size / 2 : r->size)) {
        if (control_only) control_dropped++;
        else r->dropped++;
        return;
    }
    if (filler) {
        struct entry e = {(uint32_t)(filler - sizeof e), FILLER};
        memcpy(bytes(r, head), &e, sizeof e);
        head += filler;
    }
    struct entry e = {(uint32_t)size, control_only ? FOR_CONTROL : 0};
    memcpy(bytes(r, head), &e, sizeof e);
    memcpy(bytes(r, head) + sizeof e, line, size);
    atomic_store_explicit(&r->head, head + need, memory_order_release);
}

/* ---- control socket ---- */

static bool send_ring(int index)
{
    struct ring *r = ring_at(index);
    struct board *b = run.board;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    while (r->sent < head) {
        struct entry e;
        memcpy(&e, bytes(r, r->sent), sizeof e);
        bool partial = b->partial_ring == index + 1;
        /* A reader that does not read loses lines, never stops the run or fills the ring for the record. */
        bool lagging = head - r->sent > r->size / 2;
        if (lagging && partial) {
            b->partial_ring = 0;
            b->control_torn = true;
        }
        if (!(e.flags & FILLER) && !control_gone && run.control >= 0 && !lagging) {
            uint32_t from = partial ? b->partial : 0;
            if (b->control_torn) {       /* keep the next line apart from the torn one */
                if (send(run.control, "\n", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
                b->control_torn = false;
            }
            ssize_t n = send(run.control, bytes(r, r->sent) + sizeof e + from, e.size - from, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
            if (n < 0) control_gone = true;
            else if (from + (uint32_t)n < e.size) {
                b->partial = from + (uint32_t)n;
                b->partial_ring = index + 1;
                return false;
            }
            b->partial_ring = 0;
        } else if (lagging && !(e.flags & FILLER)) control_dropped++;
        r->sent = after(r, r->sent);
    }
    return true;
}

void control_hung_up(void)
{
    control_gone = true;
    close(run.control);
    run.control = -1;
}

bool pump_control(void)
{
    int first = run.board->partial_ring == 2;      /* finish a half-sent line before any other */
    return send_ring(first) && send_ring(!first);
}

/* ---- record file ---- */

static void write_line(struct ring *r, const char *line, size_t size)
{
    struct board *b = run.board;
    size_t done = 0;
    /* A torn line is kept apart from the next one, if not at once (a full disk), then before that. */
    if (b->record_torn && write(run.record, "\n", 1) == 1) b->record_torn = false;
    while (done < size && !b->record_torn) {
        ssize_t n = write(run.record, line + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (done == size) return;
    r->unwritten++;
    if (done) b->record_torn = write(run.record, "\n", 1) != 1;
}

/* Also the lines that come while it waits for a frozen disk: by then it may be the last one that can write them. */
static void write_rings(void)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < 2; i++) {
            struct ring *r = ring_at(i);
            while (r->written < atomic_load_explicit(&r->head, memory_order_acquire)) {
                struct entry e;
                memcpy(&e, bytes(r, r->written), sizeof e);
                if (!e.flags) write_line(r, bytes(r, r->written) + sizeof e, e.size);
                r->written = after(r, r->written);
                again = true;
            }
        }
    }
}

/* Before anything lives that a slow disk could delay. */
void record_now(void) { if (run.record >= 0) write_rings(); }

static bool unwritten_lines(void)
{
    bool any = false;
    for (int i = 0; i < 2; i++) {
        struct ring *r = ring_at(i);
        if (run.record < 0) r->written = r->head;
        any |= r->written < r->head;
    }
    return any;
}

void pump_record(void)
{
    if (!unwritten_lines() || run.scribe || (run.role == FRONT && observe_prompt_until())) return;
    /* While the front adopts a tree, every child of it must be a member: lines wait in the ring. */
    if (run.role == FRONT && run.driver && run.board->stage != DONE && run.board->stage != UNPROVEN) return;
    if (run.role != FRONT) {
        write_rings();
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        /* Its end may come late (a frozen disk): nobody may take it for a holder of the lock or of the socket. */
        prctl(PR_SET_NAME, "lastout-scribe");
        close(run.lock);
        close(run.control);
        close(run.peer);
        write_rings();
        _exit(0);
    }
    /* Nothing lives that a slow disk could delay: a refused fork is told by ourselves. Else: with the next line, or at the end. */
    if (pid < 0 && run.keeper <= 0 && !run.board->root_known) write_rings();
    if (pid < 0) return;
    run.scribe = pid;
}

bool record_scribe_ended(void)
{
    if (!run.scribe || waitpid(run.scribe, NULL, WNOHANG | __WALL) != run.scribe) return false;
    run.scribe = 0;
    return true;
}

static void say_dropped(const char *where, uint32_t lines, uint32_t *told)
{
    if (lines == *told) return;
    line_begin("dropped");
    line_int("lines", lines - *told);
    line_str("where", where);
    *told = lines;
    line_end();
}

/* Called before a last line, so that a gap is named by the record that has it. */
void say_what_was_dropped(void)
{
    struct board *b = run.board;
    say_dropped("control", control_dropped, &told_control);
    say_dropped("record", b->keeper_ring.unwritten + b->front_ring.unwritten, &told_record);
    say_dropped("ring", b->keeper_ring.dropped + b->front_ring.dropped, &told_ring);
}

static int nap(void)
{
    poll(NULL, 0, 2);
    return 1;
}

void flush_lines(void)
{
    if (!lines_wanted()) return;
    int64_t due = now_ns() + FLUSH_MS * MS;
    while (!pump_control()) {
        struct pollfd p = {run.control, POLLOUT, 0};
        int64_t now = now_ns();
        if (now >= due || poll(&p, 1, wait_ms(due, now)) <= 0) break;
    }
    due = now_ns() + FLUSH_MS * MS;      /* a reader that does not read takes nothing of the disk's time */
    for (;;) {
        pump_record();
        if (!run.scribe) return;
        kill(run.scribe, SIGCONT);       /* a stopped one would keep the end of the record for itself */
        int pidfd = pidfd_open_(run.scribe);
        struct pollfd p = {pidfd, POLLIN, 0};
        int64_t now = now_ns();
        int ready = now >= due ? 0 : pidfd >= 0 ? poll(&p, 1, wait_ms(due, now)) : nap();
        if (pidfd >= 0) close(pidfd);
        /* Frozen: it writes when it can, nobody waits for it. */
        if (ready <= 0 || (!record_scribe_ended() && pidfd >= 0)) return;
    }
}

/* ---- opening ---- */

static const struct { uint32_t magic; const char *name; } network[] = {
    {0x6969, "NFS"}, {0x517b, "SMB"}, {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"}, {0x01021997, "9p"}, {0x00c36400, "Ceph"},
    {0x5346414f, "AFS"}, {0x6b414653, "AFS"}, {0x73757245, "Coda"}, {0x564c, "NCP"}, {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"}, {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}, {0x65735546, "FUSE"}, {0x19830326, "BeeGFS"},
    {0x786f4256, "vboxsf"}, {0xa501fcf5, "VxFS"},
};

const char *network_fs(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s)) return NULL;
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((uint32_t)s.f_type == network[i].magic) return network[i].name;
    return NULL;
}

int record_open(const char *path, char *why, size_t size)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    struct stat st;
    const char *fs;
    if (fd < 0) snprintf(why, size, "%s", strerror(errno));
    else if (fstat(fd, &st) || !S_ISREG(st.st_mode)) snprintf(why, size, "not a regular file");
    else if ((fs = network_fs(fd))) snprintf(why, size, "on a %s file system; a record must be on a local one", fs);
    else return fd;
    if (fd >= 0) close(fd);
    return -1;
}
