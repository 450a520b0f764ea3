/* A run: started, read, waited for, and told. */
#include "watched.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *scene = "-";
static char why[256];

void failed(const char *format, ...)
{
	va_list a;
	va_start(a, format);
	if (!why[0])
		vsnprintf(why, sizeof why, format, a);
	va_end(a);
}

int64_t ms(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void read_record(struct watched *r)
{
	int fd = open(r->path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, r->text, sizeof r->text - 1);
	if (fd >= 0)
		close(fd);
	r->text[n > 0 ? n : 0] = 0;
}

static pid_t named(const struct watched *r, const char *who)
{
	char key[32];
	snprintf(key, sizeof key, "\"%s\":{\"pid\":", who);
	const char *line = strstr(r->text, "\"event\":\"started\""), *at = line ? strstr(line, key) : NULL;
	return at ? atoi(at + strlen(key)) : 0;
}

bool comes(struct watched *r, const char *what)
{
	for (int64_t due = ms(CLOCK_MONOTONIC) + BOUND_MS; ms(CLOCK_MONOTONIC) < due; poll(NULL, 0, SLICE_MS)) {
		read_record(r);
		if (strstr(r->text, what))
			return true;
	}
	failed("never written: %s", what);
	return false;
}

void start(struct watched *r, const char *contain, bool with_control, const char *program)
{
	static char fd[16];
	int pair[2] = {-1, -1};
	snprintf(r->path, sizeof r->path, "/tmp/%s.jsonl", scene);
	if (with_control && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		fcntl(pair[1], F_SETFD, 0);
	snprintf(fd, sizeof fd, "%d", pair[1]);
	r->front = fork();
	if (r->front == 0) {
		char *argv[32] = {"/supervisor", "--record", r->path, "--stdin-end", "ignore", "--contain", (char *)contain,
		                  "--term-grace", "1", "--reap-bound", "5", with_control ? "--control" : "--", fd, "--", "/init",
		                  (char *)program, NULL};
		if (!with_control)
			argv[12] = "/init", argv[13] = (char *)program, argv[14] = NULL;
		setsid();
		execv(argv[0], argv);
		_exit(127);
	}
	close(pair[1]);
	r->control = pair[0];
	if (!comes(r, "\"event\":\"started\""))
		return;
	r->keeper = named(r, "keeper");
	r->root = named(r, "root");
}

/* Who lives, besides us and the kernel's own threads. */
static int living(void)
{
	int count = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[300], text[512];
		if (atoi(e->d_name) < 2)
			continue;
		snprintf(path, sizeof path, "/proc/%.20s/stat", e->d_name);
		FILE *f = fopen(path, "r");
		char state = 0;
		int parent = 0;
		if (f && fgets(text, sizeof text, f))
			sscanf(strrchr(text, ')') + 1, " %c %d", &state, &parent);
		if (f)
			fclose(f);
		count += state && state != 'Z' && state != 'X' && parent != 2 && atoi(e->d_name) != 2;
	}
	if (d)
		closedir(d);
	return count;
}

/* The front ends; afterwards nobody may be alive, at once or (the front was killed) when the others have done their work. */
int ends(struct watched *r, bool at_once)
{
	int status = -1;
	while (waitpid(r->front, &status, 0) < 0 && errno == EINTR) {}
	if (at_once && living())
		failed("%d were alive when the front had ended", living());
	for (int64_t due = ms(CLOCK_MONOTONIC) + BOUND_MS; living(); poll(NULL, 0, SLICE_MS))
		if (ms(CLOCK_MONOTONIC) > due) {
			failed("%d are left", living());
			break;
		}
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {}
	if (waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD)
		failed("no ECHILD");
	if (r->control >= 0)
		close(r->control);
	return status;
}

void report(const char *name, struct watched *r)
{
	read_record(r);
	for (char *line = strtok(r->text, "\n"); line; line = strtok(NULL, "\n"))
		printf("RECORD %s %s\n", name, line);
	printf("RESULT %s %s%s\n", name, why[0] ? "failed: " : "ok", why);
	fflush(stdout);
	why[0] = 0;
}

void has(struct watched *r, const char *what)
{
	read_record(r);
	if (!strstr(r->text, what))
		failed("not in the record: %s", what);
}
