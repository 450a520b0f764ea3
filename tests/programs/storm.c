/* Orphans by the thousand.
 *
 *     storm COUNT CODE
 *
 * A process in another session makes COUNT double-forked orphans that end after 0 to 20 ms with
 * codes of their own; the root ends with CODE in the middle of it. With CODE -1 the root waits
 * for the maker, notes "stormed" and stays. */
#include "kit.h"

int main(int argc, char **argv)
{
	int count = argc > 1 ? (int)number(argv[1]) : 1000, code = argc > 2 ? (int)number(argv[2]) : 0;
	int fd = join_test();
	tell_hello(fd, "root");
	pid_t maker = fork();
	if (maker == 0) {
		setsid();
		for (int i = 0; i < count; i++) {
			pid_t middle = fork();
			if (middle == 0) {
				if (fork() == 0) {
					usleep((useconds_t)(i * 7 % 20000));
					_exit(1 + i % 99);
				}
				_exit(0);
			}
			if (middle > 0)
				waitpid(middle, NULL, 0);
			else
				usleep(1000);
		}
		_exit(0);
	}
	if (code >= 0) {
		usleep(50000);
		return code;
	}
	waitpid(maker, NULL, 0);
	tell(fd, "note stormed");
	stay(fd);
}
