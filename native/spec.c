/* The spec of a run, parsed from argv. Anything that is not exactly right ends the process with one clear line: nothing
 * has been started yet. */
#include "lastout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "help.h"

static const struct { const char *name; int number; } signals[] = {
    {"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"ILL", SIGILL}, {"TRAP", SIGTRAP}, {"ABRT", SIGABRT},
    {"BUS", SIGBUS}, {"FPE", SIGFPE}, {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"STOP", SIGSTOP},
    {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU}, {"URG", SIGURG}, {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
    {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO}, {"PWR", SIGPWR}, {"SYS", SIGSYS},
};

int signal_number(const char *name)
{
    if (!strncmp(name, "SIG", 3)) name += 3;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!strcmp(name, signals[i].name)) return signals[i].number;
    return 0;
}

const char *signal_name(int signo)
{
    static char number[16];
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i].number == signo) return signals[i].name;
    snprintf(number, sizeof number, "%d", signo);
    return number;
}

/* What a host will wait for before it loses patience decides its preset; see docs/reference/budgets.md. */
static const struct { const char *name; struct graces graces; uint64_t forward; } budgets[] = {
    {"default", {1000, 3000, 0, 1500}, 0},  {"mcp", {1000, 2000, 0, 500}, 0},
    {"acp", {1000, 2000, 0, 500}, 0},       {"codex-sdk", {300, 1200, 0, 300}, 0},
    {"jupyter", {1000, 1800, 0, 400}, 1ull << (SIGINT - 1)},
    {"claude-sdk", {1000, 3000, 0, 500}, 0}, {"trio", {1000, 3000, 0, 500}, 0},
    {"instant", {0, 0, 0, 1500}, 0},
};

static const struct { const char *name; int resource; } limits[] = {
    {"AS", RLIMIT_AS}, {"CORE", RLIMIT_CORE}, {"CPU", RLIMIT_CPU}, {"DATA", RLIMIT_DATA}, {"FSIZE", RLIMIT_FSIZE},
    {"LOCKS", RLIMIT_LOCKS}, {"MEMLOCK", RLIMIT_MEMLOCK}, {"MSGQUEUE", RLIMIT_MSGQUEUE}, {"NICE", RLIMIT_NICE},
    {"NOFILE", RLIMIT_NOFILE}, {"NPROC", RLIMIT_NPROC}, {"RSS", RLIMIT_RSS}, {"RTPRIO", RLIMIT_RTPRIO},
    {"RTTIME", RLIMIT_RTTIME}, {"SIGPENDING", RLIMIT_SIGPENDING}, {"STACK", RLIMIT_STACK},
};

static uint64_t integer(const char *option, const char *text, uint64_t most, int base)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, base);
    if (!*text || *end || errno || n > most || strchr("+- \t", *text))
        bail(EXIT_NOT_STARTED, "%s takes a whole number up to %llu, not '%s'", option, (unsigned long long)most, text);
    return n;
}

static int milliseconds(const char *option, const char *text, double most)
{
    char *end;
    double s = strtod(text, &end);
    if (!*text || *end || !(s >= 0) || strspn(text, "0123456789.") != strlen(text))
        bail(EXIT_NOT_STARTED, "%s takes seconds (like 0.5), not '%s'", option, text);
    if (s > most) bail(EXIT_NOT_STARTED, "%s is at most %g seconds, not %s", option, most, text);
    return (int)(s * 1000 + 0.5);
}

static void parse_owner(struct spec *s, const char *text)
{
    if (!strcmp(text, "none")) {
        s->owner_none = true;
        return;
    }
    char pid[24];
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof pid)
        bail(EXIT_NOT_STARTED, "--owner takes PID:START or none, not '%s'", text);
    memcpy(pid, text, (size_t)(colon - text));
    pid[colon - text] = 0;
    s->owner.pid = (pid_t)integer("--owner", pid, INT32_MAX, 10);
    s->owner.start = integer("--owner", colon + 1, UINT64_MAX, 10);
    s->owner_told = true;
}

static struct { bool stdin_ms, term_ms, reap_ms, observe_ms; } given;
static int observe_ms = 1000;

static void parse_budget(struct spec *s, const char *text)
{
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        if (!strcmp(text, budgets[i].name)) {
            struct graces own = s->graces;
            s->graces = budgets[i].graces;
            /* A grace given beside it wins, before it as well as after it. */
            if (given.stdin_ms) s->graces.stdin_ms = own.stdin_ms;
            if (given.term_ms) s->graces.term_ms = own.term_ms;
            if (given.reap_ms) s->graces.reap_ms = own.reap_ms;
            s->forward |= budgets[i].forward;
            return;
        }
    bail(EXIT_NOT_STARTED, "no budget '%s': there are default, mcp, acp, codex-sdk, jupyter, claude-sdk, trio, instant", text);
}

static void parse_forward(struct spec *s, const char *text)
{
    char name[16];
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        if (n >= sizeof name) n = sizeof name - 1;
        memcpy(name, p, n);
        name[n] = 0;
        int signo = signal_number(name);
        if (!signo) bail(EXIT_NOT_STARTED, "--forward: no signal '%s'", name);
        if (signo == SIGTERM || signo == SIGKILL || signo == SIGSTOP || signo == SIGCHLD)
            bail(EXIT_NOT_STARTED, "--forward: %s cannot be passed on", name);
        s->forward |= 1ull << (signo - 1);
        p += strcspn(p, ",");
        if (!*p++) return;
    }
}

static void parse_limit(struct spec *s, const char *text)
{
    char name[16], soft[24], hard[24];
    if (s->nlimits == (int)(sizeof s->limits / sizeof *s->limits)) bail(EXIT_NOT_STARTED, "too many --rlimit");
    if (sscanf(text, "%15[A-Z]=%23[^:]:%23s", name, soft, hard) != 3)
        bail(EXIT_NOT_STARTED, "--rlimit takes NAME=SOFT:HARD, not '%s'", text);
    struct limit *l = &s->limits[s->nlimits];
    l->resource = -1;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!strcmp(name, limits[i].name)) l->resource = (int)limits[i].resource;
    if (l->resource < 0) bail(EXIT_NOT_STARTED, "--rlimit: no limit '%s'", name);
    l->soft = strcmp(soft, "unlimited") ? integer("--rlimit", soft, UINT64_MAX, 10) : RLIM_INFINITY;
    l->hard = strcmp(hard, "unlimited") ? integer("--rlimit", hard, UINT64_MAX, 10) : RLIM_INFINITY;
    s->nlimits++;
}

static void parse_groups(struct spec *s, const char *text)
{
    char number[16];
    s->set_groups = true;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        if (n >= sizeof number || s->ngroups == 64) bail(EXIT_NOT_STARTED, "--groups: not '%s'", text);
        memcpy(number, p, n);
        number[n] = 0;
        s->groups[s->ngroups++] = (gid_t)integer("--groups", number, UINT32_MAX - 1, 10);
        p += n;
        if (*p) p++;
    }
}

static void parse_run(struct spec *s, const char *text)
{
    size_t n = strlen(text);
    if (!n || n > 64 || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != n)
        bail(EXIT_NOT_STARTED, "--run takes 1 to 64 letters, digits, '.', '_' or '-'");
    memcpy(s->run, text, n + 1);
}

static int descriptor(const char *option, const char *text)
{
    int fd = (int)integer(option, text, INT32_MAX, 10);
    if (fcntl(fd, F_GETFD) < 0) bail(EXIT_NOT_STARTED, "%s: descriptor %d is not open", option, fd);
    return fd;
}

static void append(const char *option, int *list, int *count, int value)
{
    if (*count == 64) bail(EXIT_NOT_STARTED, "too many %s", option);
    list[(*count)++] = value;
}

static bool choice(const char *option, const char *text, const char *yes, const char *no)
{
    if (strcmp(text, yes) && strcmp(text, no)) bail(EXIT_NOT_STARTED, "%s is %s or %s, not '%s'", option, yes, no, text);
    return !strcmp(text, yes);
}

static enum contain tier(const char *name)
{
    if (!strcmp(name, "cgroup")) return CONTAIN_CGROUP;
    if (!strcmp(name, "pidns")) return CONTAIN_PIDNS;
    if (strcmp(name, "subreaper")) bail(EXIT_NOT_STARTED, "--contain is subreaper, cgroup or pidns, not '%s'", name);
    return CONTAIN_SUBREAPER;
}

/* One option with a value. False: there is no such option. */
static bool option(struct spec *s, const char *o, const char *v)
{
#define IS(name) !strcmp(o, name)
    if (IS("--owner")) parse_owner(s, v);
    else if (IS("--run")) parse_run(s, v);
    else if (IS("--key")) s->key = v;
    else if (IS("--lock")) s->lock = v;
    else if (IS("--epoch")) s->epoch = (int64_t)integer(o, v, INT64_MAX, 10);
    else if (IS("--record")) s->record = v;
    else if (IS("--control")) s->control = descriptor(o, v);
    else if (IS("--stdin-end")) s->stdin_stops = choice(o, v, "stop", "ignore");
    else if (IS("--contain")) s->contain = tier(v);
    else if (IS("--leftovers")) s->leftovers_wait = choice(o, v, "wait", "stop");
    else if (IS("--timeout")) s->timeout_ms = milliseconds(o, v, 2000000);
    else if (IS("--budget")) parse_budget(s, v);
    else if (IS("--stdin-grace")) given.stdin_ms = true, s->graces.stdin_ms = milliseconds(o, v, 10);
    else if (IS("--term-grace")) given.term_ms = true, s->graces.term_ms = milliseconds(o, v, 30);
    else if (IS("--reap-bound")) given.reap_ms = true, s->graces.reap_ms = milliseconds(o, v, 5);
    else if (IS("--observe-bound")) given.observe_ms = true, observe_ms = milliseconds(o, v, 2);
    else if (IS("--forward")) parse_forward(s, v);
    else if (IS("--keep-fd")) append(o, s->keep, &s->keeps, descriptor(o, v));
    else if (IS("--argv0")) s->argv0 = v;
    else if (IS("--chdir")) s->chdir = v;
    else if (IS("--umask")) s->set_umask = true, s->umask = (mode_t)integer(o, v, 0777, 8);
    else if (IS("--uid")) s->set_uid = true, s->uid = (uid_t)integer(o, v, UINT32_MAX - 1, 10);
    else if (IS("--gid")) s->set_gid = true, s->gid = (gid_t)integer(o, v, UINT32_MAX - 1, 10);
    else if (IS("--groups")) parse_groups(s, v);
    else if (IS("--rlimit")) parse_limit(s, v);
    else if (IS("--mask")) append(o, s->masks, &s->nmasks, (int)integer(o, v, INT32_MAX, 10));
    else return false;
#undef IS
    return true;
}

void spec_parse(struct spec *s, int argc, char **argv)
{
    s->graces = budgets[0].graces;
    s->stdin_stops = true;
    s->control = -1;
    s->epoch = -1;
    s->timeout_ms = -1;
    for (int sig = 0; sig < 4; sig++) s->forward |= 1ull << ((int[]){SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT}[sig] - 1);
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        static char name[32];
        const char *o = argv[i], *value, *equals = strchr(o, '=');
        if (!strcmp(o, "--")) {
            i++;
            break;
        }
        if (!strcmp(o, "--help") || !strcmp(o, "-h")) {
            fputs(HELP, stdout);
            exit(fflush(stdout) ? EXIT_NOT_STARTED : 0);
        }
        if (!strcmp(o, "--version")) {
            puts("lastout-supervisor " VERSION);
            exit(fflush(stdout) ? EXIT_NOT_STARTED : 0);
        }
        if (!strcmp(o, "--close-fds")) s->close_fds = true;
        else if (!strcmp(o, "--new-session")) s->new_session = true;
        else if (!strcmp(o, "--observe")) s->observe = true;
        else if (!strcmp(o, "--ctty")) s->ctty = s->new_session = true;
        else {
            if (equals && (size_t)(equals - o) < sizeof name) {
                memcpy(name, o, (size_t)(equals - o));
                name[equals - o] = 0;
                o = name;
                value = equals + 1;
            } else value = i + 1 < argc ? argv[++i] : NULL;
            if (!option(s, o, value ? value : "")) bail(EXIT_NOT_STARTED, "no option '%s' (see --help)", o);
            if (!value) bail(EXIT_NOT_STARTED, "%s needs a value", o);
        }
    }
    if (i >= argc || !argv[i][0]) bail(EXIT_NOT_STARTED, "no command: lastout-supervisor [OPTIONS] -- CMD [ARG...]");
    s->argv = argv + i;
    s->argc = argc - i;
    for (int k = 0; k < s->nmasks; k++)      /* off by one it would be written down in clear */
        if (s->masks[k] >= s->argc) bail(EXIT_NOT_STARTED, "--mask %d: the command has arguments 0 to %d", s->masks[k], s->argc - 1);
    if ((s->lock != NULL) != (s->epoch >= 0)) bail(EXIT_NOT_STARTED, "--lock and --epoch go together");
    if (s->contain == CONTAIN_PIDNS && s->leftovers_wait)
        bail(EXIT_NOT_STARTED, "--leftovers wait does not go with --contain pidns: the namespace's init reaps them unseen");
    if (given.observe_ms && !s->observe) bail(EXIT_NOT_STARTED, "--observe-bound is for --observe");
    if (s->observe && s->control < 0) bail(EXIT_NOT_STARTED, "--observe needs --control: somebody has to look");
    if (s->observe && s->contain == CONTAIN_PIDNS)
        bail(EXIT_NOT_STARTED, "--observe does not go with --contain pidns: the namespace's init reaps the root unseen");
    if (s->observe && !observe_ms) bail(EXIT_NOT_STARTED, "--observe-bound is more than 0");
    if (s->observe) s->graces.observe_ms = observe_ms;
    if (s->key && strlen(s->key) > 1024) bail(EXIT_NOT_STARTED, "--key is at most 1024 bytes");
    if (!s->run[0]) snprintf(s->run, sizeof s->run, "r%llx-%d", (unsigned long long)boot_ns() / 1000, (int)getpid());
}
