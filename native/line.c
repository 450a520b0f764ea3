/* One fact, one JSON line: built here, put into the ring of this process. */
#include "lastout.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static char line[LINE_CAP];
static size_t used;
static bool first_item, muted;           /* muted: nobody would read it */
static uint32_t seq;

static void raw(const char *s, size_t n)
{
    if (!muted && used + n < LINE_CAP) {
        memcpy(line + used, s, n);
        used += n;
    }
}

static void text(const char *s) { raw(s, strlen(s)); }

static void number(int64_t n)
{
    char b[24];
    raw(b, (size_t)snprintf(b, sizeof b, "%lld", (long long)n));
}

/* Length of the valid UTF-8 sequence at s, 0 if there is none: names and arguments are bytes, JSON is not. */
static int utf8(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
    return n;
}

static void quoted(const char *value)
{
    char b[8];
    raw("\"", 1);
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        int n = utf8(s);
        if (!n) raw("\xef\xbf\xbd", 3), s++;
        else if (*s == '"' || *s == '\\') b[0] = '\\', b[1] = (char)*s++, raw(b, 2);
        else if (*s < 0x20 || *s == 0x7f) raw(b, (size_t)snprintf(b, sizeof b, "\\u%04x", *s++));
        else raw((const char *)s, (size_t)n), s += n;
    }
    raw("\"", 1);
}

static void key_(const char *key)
{
    raw(",\"", 2);
    text(key);
    raw("\":", 2);
}

/* Civil date from days since 1970 (proleptic Gregorian), so that no time zone file is ever opened. */
static void wall_time(char *b, size_t size)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t days = t.tv_sec / 86400, rest = t.tv_sec % 86400;
    int64_t z = days + 719468, era = z / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153, day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    int64_t year = yoe + era * 400 + (month <= 2);
    snprintf(b, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (int)year, (int)month, (int)day, (int)(rest / 3600),
             (int)(rest / 60 % 60), (int)(rest % 60), (int)(t.tv_nsec / 1000));
}

void line_begin_at(const char *event, int64_t boottime_ns)
{
    char when[64];
    used = 0;
    muted = !lines_wanted();
    if (muted) return;
    text("{\"v\":1");
    line_str("event", event);
    line_str("run", run.spec->run);
    line_str("from", run.role == FRONT ? "front" : run.role == KEEPER ? "keeper" : "guard");
    line_int("seq", ++seq);
    line_int("boottime_ns", boottime_ns);
    wall_time(when, sizeof when);
    line_str("time", when);
}

void line_begin(const char *event) { line_begin_at(event, boot_ns()); }

void line_str(const char *key, const char *value)
{
    key_(key);
    if (value) quoted(value);
    else text("null");
}

void line_int(const char *key, int64_t value) { key_(key), number(value); }
void line_null(const char *key) { key_(key), text("null"); }
void line_bool(const char *key, bool value) { key_(key), text(value ? "true" : "false"); }

static void ident_fields(const struct ident *id)
{
    text("{\"pid\":"), number(id->pid);
    line_int("start", (int64_t)id->start);
    line_int("inode", (int64_t)id->inode);
}

void line_ident(const char *key, const struct ident *id)
{
    if (!id || !id->pid) {
        line_null(key);
        return;
    }
    key_(key);
    ident_fields(id);
    text("}");
}

void line_sender(pid_t pid, uid_t uid, bool kernel)
{
    key_("sender");
    text("{\"pid\":"), number(pid);
    line_int("uid", (int64_t)uid);
    line_bool("kernel", kernel);
    text("}");
}

/* The raw wait status first: what the kernel said. The rest is only its reading. */
void line_status(int status)
{
    line_int("status", status);
    if (WIFEXITED(status)) line_int("code", WEXITSTATUS(status));
    else line_null("code");
    if (WIFSIGNALED(status)) line_str("signal", signal_name(WTERMSIG(status)));
    else line_null("signal");
    line_bool("core", WIFSIGNALED(status) && WCOREDUMP(status));
}

void line_array(const char *key)
{
    key_(key);
    text("[");
    first_item = true;
}

/* A member takes at most about 600 bytes (a 63-byte name, all escaped). */
bool line_has_room(void) { return used + 1200 < LINE_CAP; }

static void item(void)
{
    if (!first_item) text(",");
    first_item = false;
}

void line_item_str(const char *value) { item(), quoted(value); }

void line_item_ident(const struct ident *id)
{
    item();
    ident_fields(id);
    text("}");
}

void line_item_member(const struct member *m, const char *kill_error, bool with_error)
{
    char state[2] = {m->state, 0};
    item();
    ident_fields(&m->id);
    line_str("name", m->name);
    line_int("ppid", m->ppid);
    line_int("pgid", m->pgid);
    line_int("session", m->session);
    line_str("state", state);
    line_int("uid", m->uid);
    if (with_error) line_str("kill_error", kill_error);
    text("}");
}

void line_array_end(void) { text("]"); }

void line_end(void)
{
    text("}\n");
    if (!muted) ring_put(line, used, false);
}

void line_end_control(void)
{
    text("}\n");
    if (!muted) ring_put(line, used, true);
}
