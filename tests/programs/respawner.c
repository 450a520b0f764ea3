/* Two processes that bring each other back.
 *
 * Both ignore TERM and HUP, sit in sessions of their own and look at each other every 5 ms; when
 * one is gone or a zombie, the other starts a new one. The root ends with 0 on stdin's end. */
#include "kit.h"

static int gone(pid_t pid)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 1;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 1;
	text[n] = 0;
	char *p = strrchr(text, ')');
	return !p || p[2] == 'Z' || p[2] == 'X';
}

static void guard(pid_t other)
{
	struct timespec pause = {0, 5000000};
	int64_t end = now_ms() + time_to_live_ms();
	setsid();
	while (now_ms() < end) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (other == 0 || gone(other)) {
			pid_t me = getpid(), next = fork();
			if (next == 0) {
				other = me;
				setsid();
			} else if (next > 0)
				other = next;
		}
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

int main(void)
{
	int fd = join_test();
	char byte;
	if (fork() == 0) {
		ignore_signals("TERM,HUP");
		close(fd);
		guard(0);
	}
	tell_hello(fd, "root");
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
