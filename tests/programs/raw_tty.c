/* Makes the terminal raw and its descriptor non-blocking, and never puts it back. "exit" leaves at once. */
#include <fcntl.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct termios t;
	alarm(90);
	if (tcgetattr(0, &t))
		return 77;
	cfmakeraw(&t);
	t.c_cc[VMIN] = 0;
	tcsetattr(0, TCSANOW, &t);
	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	if (argc > 1 && !strcmp(argv[1], "exit"))
		return 5;
	if (write(1, "it is raw\r\n", 11) < 0)
		return 1;
	for (;;)
		pause();
}
