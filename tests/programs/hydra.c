/* Forks faster than anybody can list it.
 *
 *     hydra LOOPS HOP_US
 *
 * The root starts LOOPS processes; each replaces itself every HOP_US microseconds by a child in
 * a session of its own, so that pid, group and session are new each time and exactly LOOPS are
 * alive. All ignore TERM and HUP. The root ends with 0 on SIGTERM or the end of stdin. */
#include "kit.h"

static void quit(int signo)
{
	(void)signo;
	_exit(0);
}

int main(int argc, char **argv)
{
	int loops = argc > 1 ? (int)number(argv[1]) : 1;
	long hop = argc > 2 ? number(argv[2]) : 2000;
	struct timespec pause = {hop / 1000000, hop % 1000000 * 1000};
	int64_t end = now_ms() + time_to_live_ms();
	int fd = join_test();
	char byte;
	signal(SIGTERM, quit);
	for (int i = 0; i < loops; i++) {
		if (fork() != 0)
			continue;
		ignore_signals("TERM,HUP");
		close(fd);
		setsid();
		while (now_ms() < end) {
			nanosleep(&pause, NULL);
			pid_t next = fork();
			if (next > 0)
				_exit(0);
			if (next == 0)
				setsid();
		}
		_exit(0);
	}
	tell_hello(fd, "root");
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
