/* A root that leaves many behind: leave COUNT
 *
 * Forks COUNT children, each in a session of its own and deaf to SIGTERM, says one byte on stdout and ends. Whatever happens,
 * they end after a minute. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 0;
    alarm(60);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0) return 1;
        if (pid == 0) {
            signal(SIGTERM, SIG_IGN);
            setsid();
            alarm(60);
            close(0);
            close(1);
            close(2);
            for (;;) pause();
        }
    }
    return write(1, "!", 1) != 1;
}
