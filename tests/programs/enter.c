/* Becomes CMD in a start state that somebody else left behind.
 *
 *     enter [--ignore SIG,...] [--block SIG,...] [--close FD]... [--limit NAME=N]... [--uid N]
 *           [--child] [--dead-namespace] [--setsid] [--group] [--tty] -- CMD ARG...
 *
 * --child leaves a child of this process (role "inherited") before the exec; --dead-namespace
 * makes every later fork fail with ENOMEM; --group makes this process lead a group; --tty takes
 * the terminal on fd 0 as the controlling one (this process must lead a session). */
#include "kit.h"

#include <sys/ioctl.h>

static void limit(const char *text)
{
	const char *value = strchr(text, '=') + 1;
	int which = !strncmp(text, "NPROC=", 6) ? RLIMIT_NPROC
	          : !strncmp(text, "NOFILE=", 7) ? RLIMIT_NOFILE : RLIMIT_CORE;
	struct rlimit both = {(rlim_t)number(value), (rlim_t)number(value)};
	if (setrlimit((__rlimit_resource_t)which, &both) < 0)
		die("setrlimit");
}

static void leave_child(void)
{
	int gate[2];
	char byte;
	if (pipe(gate) < 0)
		die("pipe");
	if (fork() == 0) {
		int fd = join_test();
		tell_hello(fd, "inherited");
		close(gate[0]);
		close(gate[1]);
		stay(fd);
	}
	close(gate[1]);
	while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(gate[0]);
}

static void kill_namespace(void)
{
	if (unshare(CLONE_NEWPID) < 0)
		die("unshare");
	pid_t init = fork();
	if (init == 0)
		_exit(0);
	waitpid(init, NULL, 0);
}

int main(int argc, char **argv)
{
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--"); i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (!strcmp(argv[i], "--child")) { leave_child(); continue; }
		if (!strcmp(argv[i], "--dead-namespace")) { kill_namespace(); continue; }
		if (!strcmp(argv[i], "--setsid")) { setsid(); continue; }
		if (!strcmp(argv[i], "--group")) { setpgid(0, 0); continue; }
		if (!strcmp(argv[i], "--tty")) {
			if (ioctl(0, TIOCSCTTY, 0) < 0)
				die("TIOCSCTTY");
			continue;
		}
		i++;
		if (!strcmp(argv[i - 1], "--ignore"))
			ignore_signals(value);
		else if (!strcmp(argv[i - 1], "--block")) {
			sigset_t set = signal_set(value);
			sigprocmask(SIG_BLOCK, &set, NULL);
		} else if (!strcmp(argv[i - 1], "--close"))
			close((int)number(value));
		else if (!strcmp(argv[i - 1], "--limit"))
			limit(value);
		else if (!strcmp(argv[i - 1], "--uid")) {
			uid_t uid = (uid_t)number(value);
			if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
				die("setresuid");
		} else
			return 2;
	}
	if (i + 1 >= argc)
		return 2;
	execvp(argv[i + 1], argv + i + 1);
	die(argv[i + 1]);
}
