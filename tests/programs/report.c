/* For shell programs: report PID ROLE names another process to the test; report note TEXT. */
#include "kit.h"

int main(int argc, char **argv)
{
	int fd = join_test();
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "note"))
		tell(fd, "note %s", argv[2]);
	else
		tell(fd, "other %s %llu %s", argv[1], start_of(argv[1]), argv[2]);
	return 0;
}
