/* A front of its own, without processes: what it answers comes out of a socket, and every line of it is checked. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include "check.h"
#include "lastout.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int peer = -1;                    /* the other side of the control socket */

static void answers_open(void)
{
    static struct spec spec = {.run = "fuzz"};
    int pair[2];
    if (peer >= 0) return;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
    run.spec = &spec;
    run.driver = true;
    run.control = pair[0];
    run.board = mmap(NULL, sizeof *run.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(run.board != MAP_FAILED);
    ring_init(run.board);
    peer = pair[1];
}

static void answers_check(void)
{
    static char all[1 << 20];
    size_t have = 0;
    for (;;) {
        pump_control();
        ssize_t n = recv(peer, all + have, sizeof all - have, 0);
        if (n <= 0) break;
        have += (size_t)n;
        char *start = all, *end;
        while ((end = memchr(start, '\n', have - (size_t)(start - all)))) {
            check_line(start, (size_t)(end - start));
            start = end + 1;
        }
        have -= (size_t)(start - all);
        memmove(all, start, have);
    }
    CHECK(have == 0);
}

#endif
