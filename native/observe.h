/* --observe: one bounded look at an exited root before it is reaped. */
#ifndef LASTOUT_OBSERVE_H
#define LASTOUT_OBSERVE_H

#include "lastout.h"

enum observing { OBSERVE_OFF, OBSERVE_ARMED, OBSERVE_OPEN, OBSERVE_CLOSED };

bool observe_open(void);                 /* the root has ended: true when it is held for a look */
bool observe_holds(void);                /* held: it must not be reaped, and what follows its end must wait */
bool observe_wants(void);                /* held, or it will be when it ends */
void observe_command(enum message_kind); /* M_ACKNOWLEDGE, M_DROP */
void observe_lost(const char *why);      /* whoever asked for the look, or kept the root, is gone */
void observe_over(const char *why);      /* the run ends: a look that was to come can come no more */
void observe_deadline(int64_t now);
int64_t observe_next_due(void);          /* 0: never */
int64_t observe_prompt_until(void);      /* front: an answer may come at once, so nothing slow before this; 0: no matter */

#endif
