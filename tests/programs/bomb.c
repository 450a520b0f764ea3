/* A fork bomb that is bounded by its user's process limit (set RLIMIT_NPROC and another uid).
 *
 *     bomb [setsid]
 *
 * Every process forks without end; with "setsid" each new one leaves for a session of its own.
 * All ignore TERM. The root says hello when fork was refused for the first time: the limit is
 * reached. It ends with 0 on SIGTERM. */
#include "kit.h"

static void quit(int signo)
{
	(void)signo;
	_exit(0);
}

int main(int argc, char **argv)
{
	int apart = argc > 1 && !strcmp(argv[1], "setsid"), fd = join_test();
	int64_t end = now_ms() + time_to_live_ms();
	struct rlimit limit;
	/* Never without the limit: this must not be able to fill a machine. */
	if (getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur > 1000 || getuid() == 0)
		return 2;
	if (fork() == 0) {
		ignore_signals("TERM,HUP");
		close(fd);
		setsid();
		while (now_ms() < end) {
			pid_t pid = fork();
			if (pid == 0 && apart)
				setsid();
			if (pid < 0)
				usleep(500);
		}
		_exit(0);
	}
	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid < 0)
			break;
		waitpid(pid, NULL, 0);
		usleep(200);
	}
	signal(SIGTERM, quit);
	tell_hello(fd, "root");
	stay(fd);
}
