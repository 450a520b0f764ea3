/* What an actor does once its steps are done: it listens to the test, to signals and to stdin. */
#include "actor.h"

void end_by(int signal)
{
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, signal);
	if (signal != SIGKILL && signal != SIGSTOP)
		(void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	kill(getpid(), signal);
}

static void command(char *line)
{
	char *words[MAX_TOKENS], *rest = line, *word;
	int count = 0;
	while (count < MAX_TOKENS && (word = strsep(&rest, " ")))
		if (*word)
			words[count++] = word;
	if (count == 2 && !strcmp(words[0], "exit"))
		_exit((int)number(words[1]));
	if (count == 2 && !strcmp(words[0], "raise"))
		end_by(signal_number(words[1]));
	else if (count == 1 && !strcmp(words[0], "ping"))
		tell(me.connection, "note pong");
	else
		for (char **t = words; t < words + count;)
			t = step(t, words + count);
}

static void hear_test(void)
{
	char text[2048], *rest = text, *line;
	ssize_t n = recv(me.connection, text, sizeof text - 1, 0);
	if (n <= 0)
		_exit(0);
	text[n] = 0;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			command(line);
}

static void hear_signals(void)
{
	struct signalfd_siginfo info;
	while (read(me.signals, &info, sizeof info) == sizeof info) {
		tell(me.connection, "note signal %u from %u", info.ssi_signo, info.ssi_pid);
		if (info.ssi_signo != SIGTERM)
			continue;
		if (me.term_exit >= 0)
			_exit(me.term_exit);
		if (me.clean_ms >= 0 && !me.clean_at) {
			tell(me.connection, "note cleaning");
			me.clean_at = now_ms() + me.clean_ms;
		}
	}
}

static void hear_stdin(void)
{
	char bytes[4096];
	ssize_t n = read(0, bytes, sizeof bytes);
	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	me.stdin_open = 0;
	if (me.stdin_note)
		tell(me.connection, "note stdin-end");
	if (me.stdin_exit >= 0)
		_exit(me.stdin_exit);
}

void *perform(void *unused)
{
	int64_t end = now_ms() + time_to_live_ms();
	(void)unused;
	for (;;) {
		struct pollfd p[3] = {
			{.fd = me.connection, .events = POLLIN},
			{.fd = me.signals > 0 ? me.signals : -1, .events = POLLIN},
			{.fd = me.stdin_open ? 0 : -1, .events = POLLIN},
		};
		int64_t until = me.clean_at && me.clean_at < end ? me.clean_at : end;
		int64_t left = until - now_ms();
		if (left <= 0 && me.clean_at) {
			tell(me.connection, "note cleaned");
			_exit(me.clean_exit);
		}
		if (left <= 0)
			_exit(98);
		if (poll(p, 3, (int)left) <= 0)
			continue;
		if (p[1].revents)
			hear_signals();
		if (p[0].revents)
			hear_test();
		if (p[2].revents)
			hear_stdin();
	}
	return NULL;
}
