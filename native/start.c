/* What is done once, around the start: our own command line, standard descriptors, and the line that says what was started. */
#include "lastout.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

const char *program = "lastout-supervisor";

static char *arguments;
static size_t arguments_size;

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int64_t boot_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void bail(int status, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, a);
    fputc('\n', stderr);
    va_end(a);
    exit(status);
}

void refuse(int status, const char *event, const char *reason, int error, const char *format, ...)
{
    char message[512];
    va_list a;
    va_start(a, format);
    vsnprintf(message, sizeof message, format, a);
    va_end(a);
    line_begin(event);
    line_str("reason", reason);
    if (!strcmp(event, "failed")) line_int("errno", error);
    line_str("message", message);
    line_ident("front", &run.board->front);
    command_fields();
    line_end();
    flush_lines();
    if (run.control >= 0) exit(status);  /* told there: stderr is the command's */
    bail(status, "%s", message);
}

void remember_arguments(int argc, char **argv)
{
    char *end = argv[0];
    for (int i = 0; i < argc && argv[i] == end; i++) end = argv[i] + strlen(argv[i]) + 1;
    arguments = argv[0];
    arguments_size = (size_t)(end - argv[0]);
}

/* Somebody who kills by the agent's name or command line must not find us under it. */
void forget_arguments(void)
{
    memset(arguments, 0, arguments_size);
    snprintf(arguments, arguments_size, "lastout-supervisor --run %s", run.spec->run);
}

/* Never closed: a number below 3 that is free would be given to the next thing that we open. */
void release_stdio(bool keep_stdin)
{
    for (int fd = keep_stdin ? 1 : 0; fd < 3; fd++) dup2(run.null, fd);
}

const char *read_text(const char *path, char *b, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, b, size - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return NULL;
    b[n] = 0;
    return b;
}

static const char *first_line(const char *path, char *b, size_t size)
{
    if (!read_text(path, b, size)) return NULL;
    b[strcspn(b, "\n")] = 0;
    return b;
}

static bool is_masked(int index)
{
    for (int i = 0; i < run.spec->nmasks; i++)
        if (run.spec->masks[i] == index) return true;
    return false;
}

static void argument_line(const struct spec *s)
{
    size_t total = 0;
    bool cut = false;
    char masked[256];
    line_array("argv");
    for (int i = 0; i < s->argc && !cut; i++) {
        const char *a = s->argv[i];
        size_t name = strcspn(a, "=");
        if (is_masked(i)) {
            bool value_only = a[name] && name < sizeof masked - 8;
            snprintf(masked, sizeof masked, "%.*s***", value_only ? (int)name + 1 : 0, a);
            a = masked;
        }
        cut = (total += strlen(a) + 1) > 8192;
        if (!cut) line_item_str(a);
    }
    line_array_end();
    line_bool("argv_truncated", cut);
}

void line_place(void)
{
    char text[64];
    struct stat ns;
    line_str("boot_id", first_line("/proc/sys/kernel/random/boot_id", text, sizeof text));
    line_int("pidns", stat("/proc/self/ns/pid", &ns) ? 0 : (int64_t)ns.st_ino);
}

void command_fields(void)
{
    char text[PATH_MAX];
    struct utsname host;
    argument_line(run.spec);
    line_str("cwd", run.spec->chdir ? run.spec->chdir : getcwd(text, sizeof text));
    line_str("host", uname(&host) ? NULL : host.nodename);
    line_place();
}

void started_line(void)
{
    const struct spec *s = run.spec;
    const struct board *b = run.board;
    const struct graces *g = &s->graces;
    char path[64], text[PATH_MAX];
    ssize_t n;
    owner_identify();
    line_begin("started");
    line_str("version", VERSION);
    line_str("key", s->key);
    if (s->epoch >= 0) line_int("epoch", s->epoch);
    else line_null("epoch");
    line_str("lock", s->lock);
    line_ident("owner", &run.owner);
    line_str("owner_watch", run.owner_watch);
    line_ident("parent", &run.parent);
    line_ident("front", &b->front);
    line_ident("keeper", &b->keeper);
    line_ident("root", &b->root);
    command_fields();
    snprintf(path, sizeof path, "/proc/%d/exe", (int)b->root.pid);
    n = readlink(path, text, sizeof text - 1);
    if (n > 0) text[n] = 0;
    line_str("exe", n > 0 ? text : NULL);
    line_int("uid", s->set_uid ? s->uid : getuid());
    line_int("gid", s->set_gid ? s->gid : getgid());
    line_int("stdin_grace_ms", g->stdin_ms);
    line_int("term_grace_ms", g->term_ms);
    line_int("observe_bound_ms", g->observe_ms);
    line_int("reap_bound_ms", g->reap_ms);
    line_int("max_stop_ms", g->stdin_ms + g->term_ms + g->observe_ms + g->reap_ms);
    line_int("timeout_ms", s->timeout_ms < 0 ? 0 : s->timeout_ms);
    line_str("stdin_end", s->stdin_stops ? "stop" : "ignore");
    line_str("leftovers", s->leftovers_wait ? "wait" : "stop");
    line_int("terminal", run.terminal);
    line_str("contain", s->contain == CONTAIN_CGROUP ? "cgroup" : s->contain == CONTAIN_PIDNS ? "pidns" : "subreaper");
    if (s->contain == CONTAIN_PIDNS) line_ident("init", &b->init);
    if (s->contain == CONTAIN_CGROUP) {
        line_str("cgroup", cgroup_path);
        line_int("cgroup_id", (int64_t)cgroup_id);
    }
    line_int("inherited_children", run.foreigns);
    line_bool("pidfds", has_pidfds());
    own_children(NULL, 0);               /* nobody may have asked yet, and this is to be known */
    line_bool("children_files", has_children_files());
    line_end();
}
