/* Shared words of the supervisor: one process tree (the run), two processes of ours (front and keeper).
 *
 * front   the pid that the caller sees; relays signals and commands, writes the record, mirrors the status
 * keeper  parent of the root; owns the ladder
 * driver  whoever runs the ladder: the keeper, or the front after it took over
 *
 * Nothing is allocated after the start: every array below is static and bounded. */
#ifndef LASTOUT_H
#define LASTOUT_H

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef LASTOUT_VERSION               /* given by the build, which has it from the Python package */
#define VERSION LASTOUT_VERSION
#else
#define VERSION "unknown"
#endif
#define MS 1000000LL                 /* nanoseconds in a millisecond */
#define ACK_MS 500                   /* a stop that the keeper did not take up, a SIGKILL stage that is overdue */
#define FULL_MS 100                  /* a message to the keeper that finds its socket full */
#define LATE_MS 500                  /* a wake-up later than this extends a grace once ... */
#define EXTEND_MS 1000               /* ... by at most this */
#define FLUSH_MS 250                 /* last lines: at most this long for a slow reader, and for a slow disk */
#define CROWD 16                     /* members killed, up to which the driver needs no priority to wait for their end */
#define WALK_AFTER_ROUNDS 8          /* kill rounds before the SIGSTOP walk (measured: docs/decisions/0002) */
#define NAMED 256                    /* members named in one line; all are counted */
#define LINE_CAP (60 * 1024)
#define MAX_PIDS 32768               /* one listing; what does not fit is taken in the next round */

#define DEATH_SIGNAL 64              /* without pidfds: our parent has ended, or the thread of it that forked us */
#define OWNER_LOOK_MS 500            /* without pidfds: how often an owner that is not our parent is looked for */

enum { EXIT_UNPROVEN = 1, EXIT_TIMEOUT = 124, EXIT_NOT_STARTED = 125, EXIT_CANNOT_EXEC = 126, EXIT_NOT_FOUND = 127 };

/* ---- identity ------------------------------------------------------------------------------------------------- */

struct rusage;
struct ident { pid_t pid; uint64_t start, inode; };

struct member {
    struct ident id;
    pid_t ppid, pgid, session;
    uid_t uid;
    int threads, tty;
    uint64_t parent_start;               /* of the process in whose list of children it was found; 0: ours */
    bool in_cgroup;                      /* found there, not below us */
    char state, name[64];
};

/* ---- spec: what argv asked for ---------------------------------------------------------------------------------- */

enum contain { CONTAIN_SUBREAPER, CONTAIN_CGROUP, CONTAIN_PIDNS };

enum terminal { TERMINAL_NONE = 1, TERMINAL_FOREGROUND = 2, TERMINAL_SHARED = 3 };

struct graces { int stdin_ms, term_ms, observe_ms, reap_ms; };

struct limit { int resource; uint64_t soft, hard; };

struct spec {
    char **argv;                         /* CMD and its arguments, NULL-terminated */
    int argc;
    char run[65];
    const char *key, *lock, *record, *argv0, *chdir;
    int64_t epoch, timeout_ms;
    struct graces graces;
    bool owner_none, owner_told;
    struct ident owner;
    int control;
    enum contain contain;
    bool stdin_stops, leftovers_wait, close_fds, new_session, observe, ctty;
    uint64_t forward;                    /* bit n-1 is signal n */
    int keep[64], keeps;
    int masks[64], nmasks;
    bool set_umask, set_uid, set_gid, set_groups;
    mode_t umask;
    uid_t uid;
    gid_t gid, groups[64];
    int ngroups;
    struct limit limits[16];
    int nlimits;
};

void spec_parse(struct spec *, int argc, char **argv);       /* ends the process on bad input */
int signal_number(const char *name);                         /* 0: unknown */
const char *signal_name(int signo);

/* ---- board: memory that front and keeper share ------------------------------------------------------------------ */

enum stage { STARTING, RUNNING, STOP_STDIN, STOP_TERM, STOP_KILL, UNPROVEN, DONE };

enum trigger { NO_TRIGGER, OWNER_DIED, OWNER_HUNG_UP, STDIN_ENDED, SIGNAL, REQUESTED, TIMEOUT, LEASE_EXPIRED, PEER_LOST, ROOT_EXITED };

enum { KEEPER_RING = 256 * 1024, FRONT_RING = 128 * 1024 };

/* One writer, one reader. Positions only grow; an entry never wraps (a skip entry fills the end). */
struct ring {
    _Atomic uint64_t head, sent, written;
    _Atomic uint32_t dropped, unwritten; /* lines that found no room; lines that the disk did not take */
    uint32_t size, offset;               /* of its bytes within the board */
};

struct board {
    _Atomic int stage, trigger, signo;
    _Atomic int64_t kill_due, end_due;   /* CLOCK_MONOTONIC, ns; 0 outside a stop */
    _Atomic uint32_t rounds;             /* the driver's heartbeat in the SIGKILL stage */
    _Atomic bool root_known, root_exited, root_reaped, root_first;   /* root_first: it ended before any stop */
    _Atomic bool swept, root_signalled, final;
    _Atomic uint32_t root_stops;         /* how often it was stopped, */
    _Atomic int root_stopped;            /* by what it is now; 0: it runs */
    _Atomic int observing;               /* enum observing */
    _Atomic int64_t observe_due;         /* CLOCK_MONOTONIC, ns: of the look that is going on */
    _Atomic bool front_signalled;        /* the front asked the root itself, in place of a keeper that did not */
    const char *volatile child_step;     /* how far the child came before its exec, and why no further */
    volatile int child_error;
    int exit_status;                     /* of a run that did not start; 0: it did */
    struct ident front, keeper, root, init;
    pid_t root_group;                    /* 0: the root shares the front's group */
    int root_status;                     /* raw wait status, set before the reap */
    char exec_error[512];
    struct ring keeper_ring, front_ring;
    _Atomic uint32_t partial;            /* bytes of the line at partial_ring's `sent` that the socket took */
    _Atomic int partial_ring;            /* 0 none, 1 keeper's, 2 front's */
    _Atomic bool control_torn, record_torn;   /* what was sent, or written, last is a piece of a line */
    char bytes[KEEPER_RING + FRONT_RING];
};

/* ---- the run, as each of the two processes sees it --------------------------------------------------------------- */

enum role { FRONT, KEEPER, GUARD };

struct run {
    const struct spec *spec;
    struct board *board;
    enum role role;
    bool driver;                         /* this process runs the ladder */
    enum terminal terminal;
    uint64_t ignored;                    /* HUP, INT, QUIT that were ignored at the start: bit n-1 is signal n */
    pid_t front_group, keeper, scribe, guard;
    int signals, peer, control, record, lock, null;
    int init;                            /* keeper: socket to the init of the pid namespace */
    int front_pidfd, root_pidfd, owner_pidfd, parent_pidfd;
    const char *owner_watch;             /* told, parent, none */
    struct ident owner, parent;
    bool front_lost, watch_stdin, child_ended;
    bool keeper_full;                    /* front: no room for another command */
    bool owner_by_signal, owner_by_look; /* where there is no pidfd to wait for */
    pid_t foreign[NAMED];                /* children that were there before us */
    int foreigns;
    int64_t timeout_due;                 /* CLOCK_MONOTONIC, ns; 0 none */
};

extern struct run run;
extern const char *program;

/* ---- time ------------------------------------------------------------------------------------------------------- */

int64_t now_ns(void);                    /* CLOCK_MONOTONIC */
int64_t boot_ns(void);                   /* CLOCK_BOOTTIME */

/* ---- control and messages ---------------------------------------------------------------------------------------- */

enum message_kind { M_STOP = 1, M_SIGNAL, M_DEADLINE, M_LIST, M_ACKNOWLEDGE, M_DROP, M_STOP_OTHERS };

struct message {
    enum message_kind kind;
    enum trigger trigger;
    int signo;
    bool kernel, has_sender, has_reason, has_by, forwarded, no_grace;
    pid_t pid;
    uid_t uid;
    int64_t number;                      /* grace_ms (-1: none) or a deadline */
    char reason[32], by[128], which[8];
};

void error_line(const char *message);
bool control_read(void (*deliver)(const struct message *));  /* false: the peer hung up */

/* ---- start ------------------------------------------------------------------------------------------------------- */

void owner_find(pid_t first_parent);                         /* ends the process when the owner is refused */
void owner_may_have_died(void);
void owner_look(void);
void owner_identify(void);                                   /* of the parent that is watched: who it was */
void lock_take(const struct spec *);                         /* ends the process when busy or superseded */
bool lock_note(void);                                        /* keeper: who holds it; false with errno set */
enum terminal terminal_case(const struct spec *, const struct member *self);
void not_started(const char *step, int error);
bool spawn_root(void);                                       /* keeper: fills the board; false when not executed */
void started_line(void), command_fields(void);               /* argv, cwd, host, place: also of what was not started */
void remember_arguments(int argc, char **argv);
void forget_arguments(void);                                 /* names of the agent leave our command line */
void close_all_but(int *keep, int n);                        /* above 2; sorts the list */
const char *read_text(const char *path, char *b, size_t size);   /* NULL when it cannot be read or is empty */
pid_t start_child(pid_t parent, int *pidfd);
void release_descriptors(void);                              /* closes what we inherited for the root, but 0-2 */
void release_stdio(bool keep_stdin);                         /* /dev/null takes the place of 0-2 */
_Noreturn void bail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void refuse(int status, const char *event, const char *reason, int error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- processes and the tree ------------------------------------------------------------------------------------------ */

bool read_member(pid_t, struct member *);                    /* one line of /proc; false when it is gone */
bool parse_member(const char *stat, pid_t, struct member *); /* the text of /proc/PID/stat; false when it is none */
bool is_dying(pid_t);                                        /* it will do nothing more */
bool identify(pid_t, struct ident *);                        /* of ourselves, an own child, or a pinned process */
uint64_t pidfd_inode(int pidfd);
int pidfd_open_(pid_t);
int pidfd_signal(int pidfd, pid_t, int signo);               /* without a pidfd by number: verify it first */
bool has_pidfds(void);                                       /* as far as we know by now */
bool has_children_files(void);
bool children_files_missing(int error);
bool list_all(void);
int listed_children(pid_t parent, pid_t *out, int max);
bool dead(const struct member *);                            /* Z with no other thread, or X */
int own_children(pid_t *out, int max);
int children_of(const struct member *, pid_t *out, int max);
bool is_foreign(pid_t);                                      /* our child, but no member */
enum { WALK_LIVING, WALK_DEAD_TOO, WALK_VISIT_FIRST };      /* the last: before its children are looked up */
bool walk_tree(void (*visit)(const struct member *, void *), void *, int how);           /* false: cut */
int signal_member(const struct member *, const int *signals, int count);                 /* 0 or errno */

enum reap_result { TREE_EMPTY, ONLY_ROOT, TREE_LIVES };
enum reap_result reap(bool hold_root);                       /* what ended; tells the root's end before its reap */
void reap_root(void);
int wait_status(const siginfo_t *);                          /* as wait(2) has it */
void note_root_end(int status);                              /* notes and tells it */
void hurry(void);
void calm_down(void);                                            /* a stop must not wait for a bomb's share of the cores */
int kill_round(void);                                        /* how many members were newly killed */
void stop_walk_and_kill(bool spare_root, void (*killed)(const struct member *));
void forget_kills(void);
enum marks { COUNTED, FROZEN, KILLED };
bool mark(enum marks, const struct ident *);                 /* true: it is the first time (exact up to 65,536 pids) */

struct totals {
    uint32_t killed, kills_sent, failed, reaped, stopped, rounds;
    bool root;                           /* the root was among those that SIGKILL was sent to, before its end was seen */
    struct ident stopped_ids[NAMED];
};
extern struct totals totals;
void note_stopped(const struct ident *);

/* ---- the ladder ------------------------------------------------------------------------------------------------------- */

void stop_begin(const struct message *);
void stop_resume(bool overdue);                              /* after a takeover */
void stop_root_ended(void);
void stop_tree_empty(void);
void stop_lend(int64_t ns);                                  /* a look takes no time from the graces; below 0: what it left over */
void stop_deadlines(int64_t now);
int64_t stop_next_due(void);                                 /* 0: never */
void others_begin(const struct message *);                   /* `stop-others`: the root stays */
void others_step(int64_t now);
int64_t others_next_due(void);
void forward_signal(const struct message *);

const char *trigger_name(enum trigger);
const char *errno_name(int);                                 /* NULL for 0 */
void stop_line(const char *event, const struct message *, int64_t at, const struct graces *);   /* left open */
void root_signalled_line(int signo, int error, const struct message *forwarded);
void members_signalled_line(int signo, int count, int failed);
void kill_line(void);
void leftovers_line(void);
void list_line(void);
void with_inode(struct member *);
void unproven_line(const char *why, bool keeper_stays, bool look);
void gone_line(bool late, const char *proof, int64_t stop_ms);
void takeover_line(const char *why, int keeper_status);
bool leftover_named(pid_t);
void reaped_line(const char *who, pid_t, int status, const struct rusage *);

/* ---- the two loops ------------------------------------------------------------------------------------------------------ */

void loop(bool (*step)(int64_t now), int64_t (*next_due)(void));   /* until step says true */
void deliver(const struct message *);                        /* to the ladder, or to the process that runs it */
void look_again(void);                                       /* in a moment: something could not be found out */
void take_init(void);                                        /* what the init of the pid namespace says */
void take_cgroup(void);                                      /* the run's cgroup changed */
bool drive_step(int64_t now);                                /* the driver's */
int64_t drive_next_due(void);
_Noreturn void keeper_main(void);
_Noreturn void front_main(void);
void front_asked_to_stop(const struct message *);
void control_hung_up(void), front_is_lost(void), wake_peer(void);
int64_t earlier(int64_t a, int64_t b);                       /* 0 is never */
void stop_for(enum trigger, const char *which);
int wait_ms(int64_t due, int64_t now);                       /* for poll: rounded up, -1 without a due */

#include "line.h"
#include "tiers.h"

#endif
