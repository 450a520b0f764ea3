/* The text of /proc/PID/stat, with a process name of any bytes: refused, or a member that can be told in a line. */
#include "answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);                           /* exactly as long: whoever reads on is seen */
    struct member m;
    answers_open();
    CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    memset(&m, 0xa5, sizeof m);
    if (parse_member(text, 4711, &m)) {
        CHECK(m.id.pid == 4711 && m.id.inode == 0 && !m.in_cgroup && memchr(m.name, 0, sizeof m.name));
        line_begin("list");
        line_array("members");
        line_item_member(&m, NULL, true);
        line_array_end();
        line_end_control();
        answers_check();
    }
    free(text);
    return 0;
}
