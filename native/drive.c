/* The driver's step: look what has ended, let the ladder act. */
#include "observe.h"
#include "tty.h"

#include <unistd.h>

static bool looked_at;                   /* what follows the root's end waits for the look at it */

/* Nothing is left: below us, and in the run's cgroup. */
static enum reap_result reap_and_remove(bool hold_root)
{
    enum reap_result left = reap(hold_root);
    return left == TREE_EMPTY && cgroup_path[0] && !cgroup_remove() ? TREE_LIVES : left;
}

static void let_stdin_go(void)
{
    release_stdio(false);                /* the owner's next write gets EPIPE, not a full pipe */
    run.watch_stdin = false;
}

/* The root has ended, others have not. */
static enum reap_result others_live(void)
{
    enum reap_result left = TREE_LIVES;
    if (run.board->stage < STOP_KILL) leftovers_line();      /* after that they are not left over but being ended */
    if (run.spec->leftovers_wait && run.board->stage == RUNNING) {
        reap_root();
        left = reap_and_remove(false);
    } else if (run.board->stage == RUNNING) stop_for(ROOT_EXITED, NULL);
    else stop_root_ended();
    wake_peer();
    return left;
}

static bool look(void)
{
    struct board *b = run.board;
    bool ended_before = b->root_exited;
    run.child_ended = false;
    tty_look_at_root();
    enum reap_result left = reap_and_remove(b->stage < STOP_KILL || observe_wants());
    bool ended_now = b->root_exited && !ended_before;
    if (ended_now) let_stdin_go(), looked_at = observe_open();
    if (observe_holds()) return false;
    if (looked_at) looked_at = false, ended_now = true;
    if (left == ONLY_ROOT) {
        reap_root();
        left = reap_and_remove(false);
    }
    if (left == TREE_LIVES && ended_now) left = others_live();
    if (left != TREE_EMPTY) return false;
    stop_tree_empty();
    return true;
}

void take_init(void)
{
    bool ended_before = run.board->root_exited, others = pidns_read();
    if (run.board->root_exited && !ended_before) let_stdin_go(), wake_peer();
    if (others) others_live();
}

void take_cgroup(void)
{
    char text[256];
    if (pread(cgroup_events(), text, sizeof text, 0) >= 0) run.child_ended = true;     /* read, it waits for the next change */
}

static int64_t again_due, owner_due;

/* Something could not be found out: no event will come of it, so look in a moment. */
void look_again(void) { again_due = now_ns() + 20 * MS; }

bool drive_step(int64_t now)
{
    struct board *b = run.board;
    observe_deadline(now);
    if (run.owner_by_look && now >= owner_due) {
        owner_due = now + OWNER_LOOK_MS * MS;
        owner_look();
    }
    if (again_due && now >= again_due) {
        again_due = 0;
        run.child_ended = true;
    }
    if ((run.child_ended || b->stage >= STOP_KILL) && look()) return true;
    others_step(now);
    stop_deadlines(now);
    if (b->stage == UNPROVEN) return run.role == FRONT;
    return b->stage == STOP_KILL && look();
}

int64_t drive_next_due(void)
{
    return earlier(earlier(earlier(stop_next_due(), others_next_due()), observe_next_due()), earlier(again_due, run.owner_by_look ? owner_due : 0));
}
