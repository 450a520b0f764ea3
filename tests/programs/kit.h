/* What every test program shares: the connection to the test, and a life that always ends.
 *
 * A program connects to the abstract AF_UNIX socket named in $LASTOUT_TEST_SOCKET and says
 * "hello START ROLE". The connection then proves its life: the kernel gives the test a pidfd
 * of whoever connected, and the end of the stream when it is gone. It also bounds that life:
 * a program whose test has gone ends by itself. */
#ifndef LASTOUT_TEST_KIT_H
#define LASTOUT_TEST_KIT_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what)
{
	perror(what);
	_exit(99);
}

static inline long number(const char *text)
{
	return strtol(text, NULL, 10);
}

static inline int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* No program outlives this, whatever goes wrong around it. */
static inline int64_t time_to_live_ms(void)
{
	const char *text = getenv("LASTOUT_TEST_TTL");
	return (text ? number(text) : 90) * 1000;
}

/* Field 22 of /proc/PID/stat, counted after the last ')': a name may hold anything. */
static inline unsigned long long start_of(const char *pid)
{
	char path[64], text[1024];
	unsigned long long start = 0;
	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	char *p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (p)
		start = strtoull(p + 1, NULL, 10);
	return start;
}

/* -1 when there is no test: the programs can be run by hand as well. */
static inline int join_test(void)
{
	const char *name = getenv("LASTOUT_TEST_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (!name || strlen(name) + 2 > sizeof address.sun_path)
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path + 1, name, strlen(name));
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	while (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) < 0) {
		if (errno == EINTR)
			continue;
		close(fd);
		return -1;
	}
	/* Out of the way of 0-2, which a hostile start may have left closed, and of jobservers. */
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 200);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

__attribute__((format(printf, 2, 3)))
static inline void tell(int fd, const char *format, ...)
{
	char line[1024];
	va_list list;
	if (fd < 0)
		return;
	va_start(list, format);
	int n = vsnprintf(line, sizeof line - 1, format, list);
	va_end(list);
	if (n < 0)
		return;
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	line[n++] = '\n';
	if (send(fd, line, (size_t)n, MSG_NOSIGNAL) < 0) {
		/* the test has gone: the loop that reads the connection ends us */
	}
}

static inline void tell_hello(int fd, const char *role)
{
	tell(fd, "hello %llu %s", start_of("self"), role);
}

/* For programs that only have to stay: until told "exit N", the test goes, or time is over. */
static inline void stay(int fd)
{
	int64_t end = now_ms() + time_to_live_ms();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char text[256];
	for (;;) {
		int64_t left = end - now_ms();
		if (left <= 0)
			_exit(98);
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		ssize_t n = recv(fd, text, sizeof text - 1, 0);
		if (n <= 0)
			_exit(0);
		text[n] = 0;
		if (!strncmp(text, "exit ", 5))
			_exit((int)number(text + 5));
		if (!strncmp(text, "ping", 4))
			tell(fd, "note pong");
	}
}

static inline int signal_number(const char *name)
{
	static const struct { const char *name; int number; } table[] = {
		{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"TERM", SIGTERM},
		{"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
		{"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"KILL", SIGKILL},
		{"WINCH", SIGWINCH}, {"TSTP", SIGTSTP}, {"TTOU", SIGTTOU}, {"TTIN", SIGTTIN},
		{"ABRT", SIGABRT}, {"SEGV", SIGSEGV},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!strcmp(table[i].name, name))
			return table[i].number;
	return (int)number(name);
}

/* "TERM,INT" as a set. */
static inline sigset_t signal_set(const char *names)
{
	sigset_t set;
	char copy[256], *rest = copy, *name;
	sigemptyset(&set);
	snprintf(copy, sizeof copy, "%s", names);
	while ((name = strsep(&rest, ",")))
		sigaddset(&set, signal_number(name));
	return set;
}

static inline void ignore_signals(const char *names)
{
	sigset_t set = signal_set(names);
	for (int s = 1; s < NSIG; s++)
		if (sigismember(&set, s) == 1)
			signal(s, SIG_IGN);
}

#endif
