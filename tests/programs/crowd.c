/* Many leftovers at once.
 *
 *     crowd COUNT [chain]
 *
 * COUNT processes, each in its own session and ignoring TERM, INT and HUP: all children of the
 * root, or (chain) each the child of the one before. The root says hello when all are there and
 * ends with 0 on SIGTERM. */
#include "kit.h"

static void quit(int signo)
{
	(void)signo;
	_exit(0);
}

static void linger(int fd, int gate)
{
	close(fd);
	close(gate);
	alarm((unsigned)(time_to_live_ms() / 1000));
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? number(argv[1]) : 10;
	int chain = argc > 2 && !strcmp(argv[2], "chain"), gate[2];
	int fd = join_test();
	char byte;
	pid_t root = getpid();
	if (pipe(gate) < 0)
		die("pipe");
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0)
			die("fork");
		if (pid == 0) {
			setsid();
			ignore_signals("TERM,INT,HUP");
			if (!chain || i + 1 == count)
				linger(fd, gate[1]);
		} else if (chain) {
			if (getpid() == root)
				break;
			linger(fd, gate[1]);
		}
	}
	close(gate[1]);
	while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
		;
	signal(SIGTERM, quit);
	tell_hello(fd, "root");
	stay(fd);
}
