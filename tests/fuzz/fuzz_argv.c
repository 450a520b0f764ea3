/* Arguments, separated by NUL: one clear line and no start, or a spec within its bounds. */
#include "lastout.h"

#include "check.h"

#include <setjmp.h>
#include <stdarg.h>

static jmp_buf ended;

_Noreturn static void fuzz_bail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

_Noreturn static void fuzz_bail(int status, const char *format, ...)
{
    static char said[1 << 16];
    va_list args;
    va_start(args, format);
    CHECK(vsnprintf(said, sizeof said, format, args) > 0);
    va_end(args);
    longjmp(ended, status);
}

/* The text of --help would be all that one sees of the fuzzer. */
#define bail fuzz_bail
#define exit(status) longjmp(ended, (status) ? (status) : -1)
#define fputs(text, file) 0
#define puts(text) 0
#include "../../native/spec.c"
#undef exit

enum { MOST = 128 };

static void check(const struct spec *s, char **argv, int argc)
{
    CHECK(s->argc > 0 && s->argv[0][0] && s->argv + s->argc == argv + argc && !argv[argc]);
    CHECK(s->run[0] && memchr(s->run, 0, sizeof s->run) && !strchr(s->run, '/'));
    CHECK(s->graces.stdin_ms >= 0 && s->graces.stdin_ms <= 10000 && s->graces.term_ms >= 0 && s->graces.term_ms <= 30000);
    CHECK(s->graces.reap_ms >= 0 && s->graces.reap_ms <= 5000 && s->graces.observe_ms >= 0 && s->graces.observe_ms <= 2000);
    CHECK(s->timeout_ms >= -1 && s->keeps <= 64 && s->nmasks <= 64 && s->ngroups <= 64 && s->nlimits <= 16);
    CHECK(!(s->forward & (1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 1ull << (SIGTERM - 1) | 1ull << (SIGCHLD - 1))));
    CHECK((s->lock != NULL) == (s->epoch >= 0) && (!s->observe || s->control >= 0));
    for (int i = 0; i < s->nlimits; i++) CHECK(s->limits[i].resource >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spec spec;
    static char *argv[MOST + 2];
    static int argc;
    char *text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    argc = 0;
    argv[argc++] = (char *)"lastout-supervisor";
    for (char *p = text; p < text + size && argc <= MOST; p += strlen(p) + 1) argv[argc++] = p;
    argv[argc] = NULL;
    memset(&spec, 0, sizeof spec);
    memset(&given, 0, sizeof given);                         /* once a process, where it is not fuzzed */
    observe_ms = 1000;
    if (!setjmp(ended)) {
        spec_parse(&spec, argc, argv);
        check(&spec, argv, argc);
    }
    free(text);
    return 0;
}
