/* A writer that never rests: appends "W EPOCH NANOSECONDS" lines (CLOCK_MONOTONIC) to FILE.
 *
 *     appender FILE EPOCH [wrapper]
 *
 * Ignores TERM, INT and HUP; ends when its time is over. As a wrapper the root starts the writer
 * as a child in its own group and waits for it, as npm and npx do. Each line is one write. */
#include "kit.h"

static void append(int file, const char *epoch)
{
	char line[96];
	struct timespec now, pause = {0, 100000};
	int64_t end = now_ms() + time_to_live_ms();
	while (now_ms() < end) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		int n = snprintf(line, sizeof line, "W %s %lld\n", epoch,
				 (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
		if (write(file, line, (size_t)n) != n)
			_exit(1);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		return 2;
	ignore_signals("TERM,INT,HUP");
	if (argc > 3) {
		pid_t child = fork();
		if (child > 0) {
			waitpid(child, NULL, 0);
			return 0;
		}
	}
	append(file, argv[2]);
}
