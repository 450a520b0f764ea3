/* The first process of a virtual machine that holds nothing but this program and the supervisor.
 *
 * It plays scenes on a real kernel of another kind: rude trees that are stopped, supervisors that are killed, and what cannot be
 * had anywhere else, a machine that really sleeps. Everything is told on the console: the lines of each record, and one
 * "RESULT scene ok" or "RESULT scene failed: why"; machine.py reads them. As pid 1 it adopts whoever escapes, so ECHILD here says
 * that a scene left nobody. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIFE = 300, SLICE_MS = 20, BOUND_MS = 60000, ASLEEP_S = 8 };

static const char *scene = "-";
static char why[256];

static void failed(const char *format, ...)
{
	va_list a;
	va_start(a, format);
	if (!why[0])
		vsnprintf(why, sizeof why, format, a);
	va_end(a);
}

static int64_t ms(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* ---- the rude tree: this program again, as the root ---- */

static int rude(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP};
	for (size_t i = 0; i < 3; i++)
		signal(ignored[i], SIG_IGN);
	alarm(LIFE);
	if (fork() == 0) {                       /* a child in the root's group */
		alarm(LIFE);
		for (;;)
			pause();
	}
	if (fork() == 0) {                       /* an escapee */
		setsid();
		if (fork())
			_exit(0);
		alarm(LIFE);
		for (;;)
			pause();
	}
	for (;;)
		pause();
}

/* ---- a run ---- */

struct watched {
	pid_t front, keeper, root;
	int control;
	char path[64], text[64 * 1024];
};

static void read_record(struct watched *r)
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

static bool comes(struct watched *r, const char *what)
{
	for (int64_t due = ms(CLOCK_MONOTONIC) + BOUND_MS; ms(CLOCK_MONOTONIC) < due; poll(NULL, 0, SLICE_MS)) {
		read_record(r);
		if (strstr(r->text, what))
			return true;
	}
	failed("never written: %s", what);
	return false;
}

static void start(struct watched *r, const char *contain, bool with_control, const char *program)
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
static int ends(struct watched *r, bool at_once)
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

static void report(const char *name, struct watched *r)
{
	read_record(r);
	for (char *line = strtok(r->text, "\n"); line; line = strtok(NULL, "\n"))
		printf("RECORD %s %s\n", name, line);
	printf("RESULT %s %s%s\n", name, why[0] ? "failed: " : "ok", why);
	fflush(stdout);
	why[0] = 0;
}

static void has(struct watched *r, const char *what)
{
	read_record(r);
	if (!strstr(r->text, what))
		failed("not in the record: %s", what);
}

/* ---- scenes ---- */

static void stopped(const char *contain)
{
	struct watched r = {0};
	start(&r, contain, false, "rude");
	kill(r.front, SIGTERM);
	int status = ends(&r, true);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
		failed("the front's status is %d", status);
	has(&r, "\"event\":\"tree-gone\"");
	report(scene, &r);
}

static void killed(bool front, bool keeper, const char *contain)
{
	struct watched r = {0};
	start(&r, contain, false, "rude");
	if (keeper && r.keeper > 1)
		kill(r.keeper, SIGKILL);
	if (front)
		kill(r.front, SIGKILL);
	ends(&r, !front);
	if (!(front && keeper))
		has(&r, "\"event\":\"tree-gone\"");
	report(scene, &r);
}

/* ---- the machine sleeps ---- */

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Suspended until the clock's alarm. CLOCK_BOOTTIME goes on meanwhile; CLOCK_MONOTONIC stands still in a real sleep (x86: S3) and
 * goes on where a machine is only frozen (aarch64 under QEMU: suspend to idle). Both are told. */
static void sleep_machine(void)
{
	char at[16];
	int64_t boot = ms(CLOCK_BOOTTIME), monotonic = ms(CLOCK_MONOTONIC);
	snprintf(at, sizeof at, "+%d", ASLEEP_S);
	if (!write_to("/sys/class/rtc/rtc0/wakealarm", at) || !write_to("/sys/power/state", "mem"))
		failed("this machine cannot sleep: %s", strerror(errno));
	boot = ms(CLOCK_BOOTTIME) - boot;
	monotonic = ms(CLOCK_MONOTONIC) - monotonic;
	printf("SLEPT %lld ms, of which CLOCK_MONOTONIC saw %lld\n", (long long)boot, (long long)monotonic);
	if (boot < (ASLEEP_S - 3) * 1000)
		failed("slept only for %lld ms", (long long)boot);
}

static void tell(const struct watched *r, const char *format, long long number)
{
	char text[128];
	int n = snprintf(text, sizeof text, format, number);
	if (r->control < 0 || write(r->control, text, (size_t)n) != n)
		failed("control: %s", strerror(errno));
}

/* Two runs while the machine sleeps. The lease of one runs out meanwhile: on waking its agent is killed without a grace. The other
 * is being stopped, and loses no grace to the sleep: that is of the time that the machine was awake, or is extended once. */
static void asleep(void)
{
	struct watched leased = {0}, stopping = {0};
	scene = "deadline-asleep", start(&leased, "subreaper", true, "rude");
	scene = "grace-asleep", start(&stopping, "subreaper", true, "rude");
	tell(&leased, "{\"cmd\":\"deadline\",\"boottime_ns\":%lld}\n", (ms(CLOCK_BOOTTIME) + 3000) * 1000000LL);
	tell(&stopping, "{\"cmd\":\"stop\",\"grace_ms\":%lld}\n", 1000);
	comes(&stopping, "\"event\":\"signalled\"");
	sleep_machine();
	int64_t woke = ms(CLOCK_MONOTONIC);
	comes(&leased, "\"event\":\"tree-gone\"");
	read_record(&stopping);
	if (strstr(stopping.text, "\"signal\":\"KILL\""))
		failed("killed %lld ms after the machine woke", (long long)(ms(CLOCK_MONOTONIC) - woke));
	comes(&stopping, "\"event\":\"tree-gone\"");
	if (ms(CLOCK_MONOTONIC) - woke < 500)
		failed("over %lld ms after the machine woke", (long long)(ms(CLOCK_MONOTONIC) - woke));
	while (waitpid(leased.front, NULL, 0) < 0 && errno == EINTR) {}
	ends(&stopping, true);
	report("grace-asleep", &stopping);
	has(&leased, "\"trigger\":\"lease-expired\"");
	has(&leased, "\"term_grace_ms\":0,\"reap_bound_ms\"");
	report("deadline-asleep", &leased);
}

int main(int argc, char **argv)
{
	struct utsname u;
	if (argc > 1 && !strcmp(argv[1], "rude"))
		return rude();
	mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/tmp", 01777), mkdir("/dev", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	int console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3 && console >= 0; fd++)
		dup2(console, fd);
	uname(&u);
	printf("\nKERNEL %s %s\n", u.release, u.machine);
	scene = "stopped", stopped("subreaper");
	scene = "stopped-cgroup", stopped("cgroup");
	scene = "stopped-pidns", stopped("pidns");
	scene = "front-killed", killed(true, false, "subreaper");
	scene = "keeper-killed", killed(false, true, "subreaper");
	scene = "both-killed-cgroup", killed(true, true, "cgroup");
	scene = "both-killed-pidns", killed(true, true, "pidns");
	asleep();
	printf("OVER\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}
