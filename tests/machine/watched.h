/* One run in the virtual machine, as its first process sees it. */
#ifndef WATCHED_H
#define WATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { SLICE_MS = 20, BOUND_MS = 60000 };

struct watched {
	pid_t front, keeper, root;
	int control;
	char path[64], text[64 * 1024];
};

extern const char *scene;

void failed(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* the scene; the first reason is told */
int64_t ms(clockid_t);
void start(struct watched *, const char *contain, bool with_control, const char *program);
void read_record(struct watched *);
bool comes(struct watched *, const char *what);                /* a line of the record */
void has(struct watched *, const char *what);
int ends(struct watched *, bool at_once);                      /* the front's wait status; nobody is left */
void report(const char *name, struct watched *);

#endif
