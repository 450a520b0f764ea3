/* One actor's state, shared by its steps (actor.c) and its life afterwards (actor_life.c). */
#ifndef LASTOUT_TEST_ACTOR_H
#define LASTOUT_TEST_ACTOR_H

#include "kit.h"

enum { MAX_TOKENS = 256, MAX_KIDS = 32 };

struct actor {
	const char *role;
	int connection, signals, greeted;
	sigset_t wanted;
	int term_exit, clean_ms, clean_exit;
	int64_t clean_at;
	int stdin_exit, stdin_note, stdin_open;
	struct { char role[64]; pid_t pid; } kids[MAX_KIDS];
	int kid_count;
};

extern struct actor me;

/* Carries out one step (with a bracket: up to its end) and returns the next token. */
char **step(char **token, char **end);
/* Says hello once, and lets the parent go on. */
void hello(void);
/* Ends this process by a signal, whatever is blocked or handled. */
void end_by(int signal);
/* Does what test, signals and stdin ask for; a thread's start routine too. Never returns. */
void *perform(void *unused);

#endif
