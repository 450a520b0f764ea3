/* The first process of a virtual machine that holds nothing but this program and the supervisor.
 *
 * It plays scenes on a real kernel of another kind: rude trees that are stopped, supervisors that are killed, and what cannot be
 * had anywhere else, a machine that really sleeps. Everything is told on the console: the lines of each record, and one
 * "RESULT scene ok" or "RESULT scene failed: why"; machine.py reads them. As pid 1 it adopts whoever escapes, so ECHILD here says
 * that a scene left nobody. */
#include "watched.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIFE = 300, ASLEEP_S = 8 };

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
