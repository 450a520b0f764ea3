/* A machine that is late: busy COUNT SECONDS. COUNT processes that spin (ahead of everybody where
 * that is allowed) for SECONDS; the root ignores TERM and stays. */
#include "kit.h"

int main(int argc, char **argv)
{
	long count = argc > 1 ? number(argv[1]) : 4;
	int64_t end = now_ms() + (argc > 2 ? number(argv[2]) : 3) * 1000;
	int fd = join_test();
	signal(SIGTERM, SIG_IGN);
	for (long i = 0; i < count; i++) {
		if (fork() != 0)
			continue;
		setpriority(PRIO_PROCESS, 0, -15);
		close(fd);
		while (now_ms() < end)
			;
		_exit(0);
	}
	tell_hello(fd, "root");
	stay(fd);
}
