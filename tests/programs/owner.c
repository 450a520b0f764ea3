/* The process that asks for a run, and that a test can kill.
 *
 *     owner [--role NAME] [--thread] [--leader-ends] [--subreaper] [--keep FD]... -- CMD ARG...
 *
 * Starts CMD with its own descriptors, tells the test "child PID START", closes its own 0-2
 * (--keep: the given descriptor stays open here and is not passed on), waits for CMD's end and
 * tells "ended PID STATUS" with the raw status. "@owner@" in an argument becomes PID:START of
 * this process.
 *
 * --thread starts CMD from a thread that ends at once; --leader-ends then ends the main thread.
 * Over the connection: "reexec" (the same process, another image), "close FD", "exit N". */
#include "kit.h"

#include <pthread.h>

enum { MAX_KEEP = 8 };

static char *role = "owner";
static char **command;
static int by_thread, leader_ends, connection, keep[MAX_KEEP], kept;
static pid_t child;

static char *replace_owner(char *argument)
{
	char *mark = strstr(argument, "@owner@"), *text;
	if (!mark)
		return argument;
	if (asprintf(&text, "%.*s%d:%llu%s", (int)(mark - argument), argument, (int)getpid(),
	             start_of("self"), mark + 7) < 0)
		die("asprintf");
	return text;
}

static void *start(void *unused)
{
	(void)unused;
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		for (int i = 0; i < kept; i++)
			close(keep[i]);
		execvp(command[0], command);
		die(command[0]);
	}
	return NULL;
}

static void hear(char **argv)
{
	char text[256];
	ssize_t n = recv(connection, text, sizeof text - 1, 0);
	if (n <= 0)
		_exit(0);
	text[n] = 0;
	if (!strncmp(text, "exit ", 5))
		_exit((int)number(text + 5));
	if (!strncmp(text, "close ", 6)) {
		close((int)number(text + 6));
		tell(connection, "note closed");
	}
	if (!strncmp(text, "reexec", 6)) {
		char fd[16], pid[16];
		snprintf(fd, sizeof fd, "%d", connection);
		snprintf(pid, sizeof pid, "%d", (int)child);
		fcntl(connection, F_SETFD, 0);
		execl("/proc/self/exe", argv[0], "--resume", fd, pid, (char *)NULL);
		die("reexec");
	}
}

static void *attend(void *argv)
{
	int64_t end = now_ms() + time_to_live_ms();
	int pidfd = (int)syscall(SYS_pidfd_open, child, 0), status;
	for (;;) {
		struct pollfd p[2] = {{.fd = connection, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
		int64_t left = end - now_ms();
		if (left <= 0)
			_exit(98);
		if (poll(p, 2, (int)left) <= 0)
			continue;
		if (p[1].revents && waitpid(child, &status, 0) == child) {
			tell(connection, "ended %d %d", (int)child, status);
			close(pidfd);
			pidfd = -1;
		}
		if (p[0].revents)
			hear(argv);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int i = 1;
	char pid[16];
	if (argc == 4 && !strcmp(argv[1], "--resume")) {
		connection = (int)number(argv[2]);
		child = (pid_t)number(argv[3]);
		fcntl(connection, F_SETFD, FD_CLOEXEC);
		tell(connection, "note resumed");
		attend(argv);
	}
	for (; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--role") && i + 1 < argc)
			role = argv[++i];
		else if (!strcmp(argv[i], "--keep") && i + 1 < argc && kept < MAX_KEEP)
			keep[kept++] = (int)number(argv[++i]);
		else if (!strcmp(argv[i], "--thread"))
			by_thread = 1;
		else if (!strcmp(argv[i], "--leader-ends"))
			leader_ends = 1;
		else if (!strcmp(argv[i], "--subreaper"))
			prctl(PR_SET_CHILD_SUBREAPER, 1);
		else
			return 2;
	}
	if (i + 1 >= argc)
		return 2;
	command = argv + i + 1;
	for (char **a = command; *a; a++)
		*a = replace_owner(*a);
	connection = join_test();
	tell_hello(connection, role);
	if (by_thread) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, start, NULL) || pthread_join(thread, NULL))
			die("pthread_create");
	} else {
		start(NULL);
	}
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (open("/dev/null", O_RDWR) != 0 || dup(0) < 0 || dup(0) < 0)
		_exit(99);
	snprintf(pid, sizeof pid, "%d", (int)child);
	tell(connection, "child %d %llu", (int)child, start_of(pid));
	if (leader_ends) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, attend, argv))
			die("pthread_create");
		tell(connection, "note leader-ends");
		pthread_exit(NULL);
	}
	attend(argv);
}
