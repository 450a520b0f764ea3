/* What must hold for whatever comes out: checked here, so that a wrong answer ends a fuzzer as a wrong access does. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : failed(#what, __FILE__, __LINE__))

_Noreturn static inline void failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

/* One line of the record: a JSON object, closed only at its end, with nothing raw that JSON escapes. */
static inline void check_line(const char *line, size_t n)
{
    int depth = 0;
    bool quoted = false;
    CHECK(n > 2 && line[0] == '{' && line[n - 1] == '}');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)line[i];
        CHECK(c >= 0x20 && c != 0x7f);
        if (quoted && c == '\\') {
            i++;
            CHECK(i < n && (line[i] == '"' || line[i] == '\\' || line[i] == 'u'));
        } else if (c == '"') quoted = !quoted;
        else if (!quoted && (c == '{' || c == '[')) depth++;
        else if (!quoted && (c == '}' || c == ']')) depth--;
        CHECK(depth > 0 || i == n - 1);
    }
    CHECK(!quoted && depth == 0);
}

#endif
