/* What is told: lines, the rings that hold them, the control socket and the file that they go to. */
#ifndef LASTOUT_LINE_H
#define LASTOUT_LINE_H

#include "lastout.h"

void line_begin(const char *event);
void line_begin_at(const char *event, int64_t boottime_ns);
void line_str(const char *key, const char *value);           /* NULL is null */
void line_int(const char *key, int64_t value);
void line_null(const char *key);
void line_bool(const char *key, bool value);
void line_ident(const char *key, const struct ident *);      /* NULL or pid 0 is null */
void line_place(void);                                       /* boot_id, pidns: where a pid means something */
void line_sender(pid_t, uid_t, bool kernel);
void line_status(int raw);                                   /* status, code, signal, core */
void line_array(const char *key);
bool line_has_room(void);                                    /* for one more element */
void line_item_str(const char *value);
void line_item_ident(const struct ident *);
void line_item_member(const struct member *, const char *kill_error, bool with_error);
void line_array_end(void);
void line_end(void);                                         /* to record and control socket */
void line_end_control(void);                                 /* to the control socket alone */

bool lines_wanted(void);                                     /* there is a record or a control socket */
void ring_init(struct board *);
void ring_put(const char *line, size_t size, bool control_only);
bool pump_control(void);                                     /* false: the reader is slow, lines wait */
void pump_record(void);                                      /* front: through a scribe, never blocking itself */
void record_now(void);                                       /* without a scribe: only before there is a keeper */
void say_what_was_dropped(void);
void flush_lines(void);                                      /* bounded; the last thing before the end */
bool record_scribe_ended(void);                              /* reaps it */
int record_open(const char *path, char *why, size_t size);   /* fd, or -1 */
const char *network_fs(int fd);                              /* its name, or NULL when the file system is local */

#endif
