/* Commands from the control socket: one flat JSON object a line. A peer may send anything: a line that is no command is
 * answered and changes nothing. */
#include "lastout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MAX_COMMAND = 4096, BATCH = 1024 };   /* so many bytes hold no more commands than the keeper's socket has room for */

static char buffer[MAX_COMMAND];
static size_t have;
static bool discarding;                  /* the rest of a line that was too long */

void error_line(const char *message)
{
    line_begin("error");
    line_str("message", message);
    line_end_control();
}

struct field { char key[16], text[160]; int64_t number; bool is_text, is_number, cut; };

static void put_utf8(char *out, size_t *n, size_t cap, unsigned c)
{
    char b[3];
    int k = 0;
    if (c < 0x80) b[k++] = (char)c;
    else if (c < 0x800) b[k++] = (char)(0xc0 | c >> 6), b[k++] = (char)(0x80 | (c & 63));
    else b[k++] = (char)(0xe0 | c >> 12), b[k++] = (char)(0x80 | (c >> 6 & 63)), b[k++] = (char)(0x80 | (c & 63));
    for (int i = 0; i < k && *n + 1 < cap; i++) out[(*n)++] = b[i];
}

static const char *space(const char *p) { return p + strspn(p, " \t\r"); }

/* A JSON string at p (after the quote) into out, cut at cap; NULL when it is none. */
static const char *string(const char *p, char *out, size_t cap, bool *cut)
{
    size_t n = 0;
    for (; *p && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20) return NULL;
        if (n + 4 >= cap) *cut = true;
        if (*p != '\\') {
            if (n + 1 < cap) out[n++] = *p;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *at;
        if (*++p == 'u') {
            char hex[5] = {0}, *end;
            if (strspn(p + 1, "0123456789abcdefABCDEF") < 4) return NULL;
            memcpy(hex, p + 1, 4);
            unsigned c = (unsigned)strtoul(hex, &end, 16);
            /* Halves of a pair and NUL have no place in a name for people. */
            put_utf8(out, &n, cap, c == 0 || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c);
            p += 4;
        } else if (*p && (at = strchr(from, *p))) {
            if (n + 1 < cap) out[n++] = to[at - from];
        } else return NULL;
    }
    out[n] = 0;
    return *p == '"' ? p + 1 : NULL;
}

static const char *field(const char *p, struct field *f)
{
    bool cut = false;
    memset(f, 0, sizeof *f);
    p = space(p);
    if (*p++ != '"' || !(p = string(p, f->key, sizeof f->key, &cut))) return NULL;
    p = space(p);
    if (*p++ != ':') return NULL;
    p = space(p);
    if (*p == '"') {
        f->is_text = true;
        p = string(p + 1, f->text, sizeof f->text, &f->cut);
    } else if (*p == '-' || (*p >= '0' && *p <= '9')) {
        char *end;
        errno = 0;
        f->number = strtoll(p, &end, 10);
        f->is_number = !errno;
        if (errno) return NULL;
        p = end;
    } else if (!strncmp(p, "null", 4)) p += 4;
    else if (!strncmp(p, "true", 4)) p += 4;
    else if (!strncmp(p, "false", 5)) p += 5;
    else return NULL;
    return p ? space(p) : NULL;
}

static const char *const reasons[] = {"completion", "timeout", "abort", "shutdown", "idle", "user"};

static bool known_reason(const char *r)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp(r, reasons[i])) return true;
    return false;
}

static void copy(char *to, size_t cap, const char *from)
{
    size_t n = strlen(from);
    if (n >= cap) n = cap - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

/* NULL when the line was a command, else what is wrong with it. */
static const char *command(const char *line, void (*deliver)(const struct message *))
{
    struct message m = {.trigger = REQUESTED, .number = -1};
    char name[16] = "", cmd[16] = "";
    int64_t boottime = -1;
    struct field f;
    const char *p = space(line);
    if (*p++ != '{') return "not a JSON object";
    if (*space(p) == '}') return "no cmd";
    for (;;) {
        if (!(p = field(p, &f))) return "not a flat JSON object";
        if (!strcmp(f.key, "cmd")) copy(cmd, sizeof cmd, f.text);
        else if (!strcmp(f.key, "name")) copy(name, sizeof name, f.text);
        else if (!strcmp(f.key, "by") && f.is_text) m.has_by = true, copy(m.by, sizeof m.by, f.text);
        else if (!strcmp(f.key, "reason") && f.is_text) {
            if (!known_reason(f.text)) return "reason is completion, timeout, abort, shutdown, idle or user";
            m.has_reason = true;
            copy(m.reason, sizeof m.reason, f.text);
        } else if (!strcmp(f.key, "grace_ms") && f.is_number) {
            if (f.number < 0 || f.number > 30000) return "grace_ms is 0 to 30000";
            m.number = f.number;
        } else if (!strcmp(f.key, "boottime_ns") && f.is_number) boottime = f.number;
        if (*p == '}') break;
        if (*p++ != ',') return "not a flat JSON object";
    }
    if (*space(p + 1)) return "more than one JSON object in a line";
    if (!strcmp(cmd, "stop")) m.kind = M_STOP;
    else if (!strcmp(cmd, "stop-others")) m.kind = M_STOP_OTHERS;
    else if (!strcmp(cmd, "list")) m.kind = M_LIST;
    else if (!strcmp(cmd, "acknowledge")) m.kind = M_ACKNOWLEDGE;
    else if (!strcmp(cmd, "drop")) m.kind = M_DROP;
    else if (!strcmp(cmd, "deadline")) {
        if (boottime < 0) return "deadline needs boottime_ns, 0 or more";
        m.kind = M_DEADLINE;
        m.number = boottime;
    } else if (!strcmp(cmd, "signal")) {
        m.kind = M_SIGNAL;
        m.signo = signal_number(name);
        if (!m.signo) return "signal needs the name of one (\"USR1\")";
        if (m.signo == SIGKILL || m.signo == SIGSTOP || m.signo == SIGTERM) return "KILL, STOP and TERM cannot be sent: use stop";
    } else return "cmd is stop, stop-others, signal, deadline, list, acknowledge or drop";
    deliver(&m);
    return NULL;
}

static void take_line(char *line, void (*deliver)(const struct message *))
{
    if (!*space(line)) return;
    const char *wrong = command(line, deliver);
    if (wrong) error_line(wrong);
}

/* Commands that the keeper has no room for wait in the socket: none is lost, and whoever sends too many is held up himself. */
static bool keeper_has_room(void)
{
    struct pollfd p = {run.peer, POLLOUT, 0};
    run.keeper_full = !run.driver && run.peer >= 0 && poll(&p, 1, 0) == 0;
    return !run.keeper_full;
}

/* One batch: poll comes back for the rest, and deadlines are kept meanwhile. */
bool control_read(void (*deliver)(const struct message *))
{
    if (!keeper_has_room()) return true;
    size_t most = sizeof buffer - have;
    ssize_t n = recv(run.control, buffer + have, most < BATCH ? most : BATCH, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
    if (n <= 0) return false;
    have += (size_t)n;
    char *start = buffer, *end;
    while ((end = memchr(start, '\n', have - (size_t)(start - buffer)))) {
        *end = 0;
        if (memchr(start, 0, (size_t)(end - start))) error_line("a NUL byte is no JSON");
        else if (!discarding) take_line(start, deliver);
        discarding = false;
        start = end + 1;
    }
    have -= (size_t)(start - buffer);
    memmove(buffer, start, have);
    if (have == sizeof buffer) {
        if (!discarding) error_line("a command is at most 4096 bytes");
        discarding = true;
        have = 0;
    }
    return true;
}
