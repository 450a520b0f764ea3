/* Which of the three terminal cases this is. */
#include "lastout.h"

enum terminal terminal_case(const struct spec *s, const struct member *self)
{
    if (s->new_session || s->contain == CONTAIN_PIDNS || !self->tty) return TERMINAL_NONE;
    return TERMINAL_SHARED;
}
