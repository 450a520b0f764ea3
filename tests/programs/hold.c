/* Stops a process so that SIGCONT does not help: hold PID keeps it in a ptrace stop until told
 * "exit 0" or hung up; reaps it for its parent when it is killed. Says hello as "holder" once it
 * stands still; ends with 77 where tracing is not allowed. */
#include "kit.h"

int main(int argc, char **argv)
{
	int fd = join_test(), status;
	pid_t pid = argc > 1 ? (pid_t)number(argv[1]) : 0;
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
		return 77;
	if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 || waitpid(pid, &status, 0) != pid)
		return 77;
	tell_hello(fd, "holder");
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	for (;;) {
		struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
		if (poll(p, 2, (int)time_to_live_ms()) <= 0 || p[0].revents)
			return 0;
		waitpid(pid, &status, 0);
		tell(fd, "note held-is-dead");
		stay(fd);
	}
}
