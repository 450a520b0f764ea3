/* The stronger ways to hold a tree. */
#ifndef LASTOUT_TIERS_H
#define LASTOUT_TIERS_H

#include "lastout.h"

extern char cgroup_path[4096];                               /* the run's own; empty without this tier */
extern uint64_t cgroup_id;
void cgroup_prepare(void);                                   /* ends the process when it cannot be had */
bool cgroup_join(void);                                      /* the child, before its exec */
bool cgroup_kill(void);
bool cgroup_remove(void);                                    /* true: it is gone, nothing lives in it */
bool cgroup_holds(pid_t);
int cgroup_members(pid_t *out, int max);
int cgroup_events(void);                                     /* a descriptor for POLLPRI */
int cgroup_descriptors(int *out);                            /* 4 of them, -1 where there is none */
void cgroup_dismiss_guard(void);
pid_t pidns_start(void);                                     /* the root; 0 or -1: not started */
int64_t pidns_moment(int reap_ms);                           /* ns, for the report of a killed root's end */
bool pidns_read(void);                                       /* true: the root has gone and others have not */

#endif
