/* Output in the ways that break readers.
 *
 *     output flood BYTES    no newline at all, then "\nTAIL-MARKER\n"; ends with 7
 *     output last           300,000 bytes and "LAST-LINE\n", ends with 3 in the same moment
 *     output stderr         256 KiB to stderr before one line on stdout; ends with 0 on stdin's end
 *     output chatter        writes on without pause after EPIPE as well, notes the first EPIPE */
#include "kit.h"

static void put(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0)
			_exit(4);
		bytes += n;
		size -= (size_t)n;
	}
}

int main(int argc, char **argv)
{
	static char block[300000];
	const char *mode = argc > 1 ? argv[1] : "";
	int fd = join_test();
	char byte;
	memset(block, 'o', sizeof block);
	tell_hello(fd, "root");
	if (!strcmp(mode, "flood")) {
		for (long left = argc > 2 ? number(argv[2]) : 1000000; left > 0;) {
			size_t size = left > 65536 ? 65536 : (size_t)left;
			put(1, block, size);
			left -= (long)size;
		}
		put(1, "\nTAIL-MARKER\n", 13);
		_exit(7);
	}
	if (!strcmp(mode, "last")) {
		for (size_t i = 99; i < sizeof block; i += 100)
			block[i] = '\n';
		put(1, block, sizeof block);
		put(1, "LAST-LINE\n", 10);
		_exit(3);
	}
	if (!strcmp(mode, "stderr")) {
		put(2, block, 262144);
		put(1, "answer\n", 7);
		while (read(0, &byte, 1) > 0)
			;
		return 0;
	}
	if (!strcmp(mode, "chatter")) {
		int64_t end = now_ms() + time_to_live_ms();
		int told = 0;
		signal(SIGPIPE, SIG_IGN);
		while (now_ms() < end) {
			if (write(1, "token token token\n", 18) < 0 && errno == EPIPE && !told++)
				tell(fd, "note epipe");
			usleep(2000);
		}
	}
	return 2;
}
