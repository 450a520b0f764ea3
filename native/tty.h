/* The terminal that the run was started in, or that it is given. */
#ifndef LASTOUT_TTY_H
#define LASTOUT_TTY_H

#include "lastout.h"

void tty_remember(void);                 /* front, before anything is started */
int tty_join(void);                      /* child, while its signals are still blocked: its session or group; 0 or -1 */
void tty_look_at_root(void);             /* keeper: stopped, or continued? */
void tty_step(void);                     /* front */
bool tty_took(struct message *);         /* a signal that the terminal made: true when it is no stop and nothing else */
bool tty_outdated(const struct message *);   /* keeper: it is to be forwarded to a stop that is over */
void tty_front_lost(void);               /* keeper */
void tty_restore(void);                  /* as far as the terminal is still the run's */
void tty_descriptors(int *three);        /* to be kept open; -1 where there is none */

#endif
