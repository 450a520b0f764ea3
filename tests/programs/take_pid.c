/* Puts a process onto a pid that somebody else had: take_pid PID CMD ARG...
 *
 * As root through /proc/sys/kernel/ns_last_pid, else by at most 140,000 forks. Ends like CMD, or
 * with 77 when the number was not to be had. */
#include "kit.h"

int main(int argc, char **argv)
{
	char before[32];
	if (argc < 3)
		return 2;
	pid_t wanted = (pid_t)number(argv[1]);
	int size = snprintf(before, sizeof before, "%d", (int)wanted - 1);
	for (long i = 0; i < 140000; i++) {
		if (i < 640 && i % 64 == 0) {
			int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
			if (fd >= 0 && write(fd, before, (size_t)size) < 0) {
				/* not root: only the forks are left */
			}
			close(fd);
		}
		pid_t pid = fork();
		if (pid == 0) {
			if (getpid() != wanted)
				_exit(0);
			tell_hello(join_test(), "innocent");
			execvp(argv[2], argv + 2);
			_exit(127);
		}
		int status;
		if (pid > 0 && waitpid(pid, &status, 0) == wanted)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return 77;
}
