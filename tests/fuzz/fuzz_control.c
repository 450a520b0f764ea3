/* What a peer sends over the control socket, in pieces: nothing but known commands within their bounds is delivered, and the
 * answers are whole lines. The first byte of the input says how long the pieces are. */
#include "../../native/control.c"

#include "answers.h"

#include <sys/ioctl.h>

static void delivered(const struct message *m)
{
    CHECK(m->kind >= M_STOP && m->kind <= M_DROP);
    CHECK(memchr(m->by, 0, sizeof m->by) && memchr(m->reason, 0, sizeof m->reason));
    CHECK(!m->has_reason || known_reason(m->reason));
    if (m->kind == M_SIGNAL) CHECK(m->signo > 0 && m->signo != SIGKILL && m->signo != SIGSTOP && m->signo != SIGTERM);
    if (m->kind == M_STOP) CHECK(m->number >= -1 && m->number <= 30000);
    if (m->kind == M_DEADLINE) CHECK(m->number >= 0);
    stop_line("stop", m, 0, &(struct graces){0});
    line_end_control();
}

static void send_all(const uint8_t *data, size_t size, size_t piece)
{
    int unread;
    while (size) {
        size_t n = size < piece ? size : piece;
        CHECK(send(peer, data, n, 0) == (ssize_t)n);
        do {
            CHECK(control_read(delivered));
            answers_check();
            CHECK(!ioctl(run.control, FIONREAD, &unread));
        } while (unread);
        data += n, size -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    answers_open();
    send_all(data + 1, size - 1, 1 + (size_t)data[0] * 16);
    send_all((const uint8_t *)"\n", 1, 1);                   /* so that each input begins a line */
    CHECK(have == 0 && !discarding);
    return 0;
}
