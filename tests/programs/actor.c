/* A process of a tree, played from its command line, so that a test reads like the tree it makes:
 *
 *     actor root term=exit:0 [ child ignore ] [daemon escapee ignore ]
 *
 * The first word is the role; the others are steps, carried out in order. A bracket starts
 * another actor, and is done when that one has said hello. After the last step the actor says
 * hello itself (step "hello" does it earlier), then does what the test tells it over the
 * connection: "exit N", "raise SIG", "ping", "spawn [ ... ]", "close FD", or any step.
 *
 *   [        fork                      [orphan   fork twice, the middle one ends
 *   [daemon  [orphan with setsid       [vfork    vfork: the parent sits in state D
 *   [silent  clone, no exit signal     [sibling  clone with CLONE_PARENT
 *   [pidns   in a new pid namespace
 *
 *   setsid setpgid subreaper no-deathsig  ignore (TERM, INT, HUP)   ignore=SIG,...
 *   term=exit:N                      end with N on SIGTERM
 *   term=clean:MS:N                  on SIGTERM note "cleaning", work MS, note "cleaned", end
 *   note=SIG,...                     note each arrival
 *   stdin=exit:N  stdin=note         what the end of stdin does
 *   null (0-2 to /dev/null)  close=FD  name=COMM  uid=N  trace=ROLE  thread (the leader ends)
 *   print=TEXT  exit=N  raise=SIG  hello  kill-zero (SIGKILL to its own group) */
#include "actor.h"

#include <pthread.h>

struct actor me;
static int release_parent = -1;

static void act(char **token, char **end) __attribute__((noreturn));

void hello(void)
{
	if (me.greeted)
		return;
	me.greeted = 1;
	tell_hello(me.connection, me.role);
	if (release_parent >= 0)
		close(release_parent);
	release_parent = -1;
}

static void become(char **token, char **end, int pipe_end)
{
	if (me.connection >= 0)
		close(me.connection);
	if (me.signals > 0)
		close(me.signals);
	if (release_parent >= 0)
		close(release_parent);
	release_parent = pipe_end;
	act(token, end);
}

static pid_t clone_with(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
}

/* token[0] is the opening bracket with its kind, end the closing one. */
static void spawn(char **token, char **end)
{
	const char *kind = token[0] + 1;
	int gate[2], daemon = !strcmp(kind, "daemon");
	char byte;
	if (pipe2(gate, O_CLOEXEC) < 0)
		die("pipe");
	pid_t pid;
	if (!strcmp(kind, "vfork")) {
		hello();
		close(gate[0]);
		/* The child plays on in our memory while we are suspended, and never returns. */
		struct actor self = me;
		pid = vfork();
		if (pid == 0)
			become(token + 1, end, gate[1]);
		me = self;
		close(gate[1]);
		return;
	}
	if (!strcmp(kind, "silent"))
		pid = clone_with(0);
	else if (!strcmp(kind, "sibling"))
		pid = clone_with(CLONE_PARENT | SIGCHLD);
	else if (!strcmp(kind, "pidns"))
		pid = clone_with(CLONE_NEWPID | SIGCHLD);
	else
		pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(gate[0]);
		if (daemon)
			setsid();
		if (daemon || !strcmp(kind, "orphan")) {
			pid_t inner = fork();
			if (inner != 0)
				_exit(inner < 0);
		}
		become(token + 1, end, gate[1]);
	}
	close(gate[1]);
	if (daemon || !strcmp(kind, "orphan"))
		waitpid(pid, NULL, 0);
	if (me.kid_count < MAX_KIDS) {
		snprintf(me.kids[me.kid_count].role, 64, "%s", token[1]);
		me.kids[me.kid_count++].pid = pid;
	}
	while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(gate[0]);
}

static void want(const char *names)
{
	sigset_t more = signal_set(names);
	for (int s = 1; s < NSIG; s++)
		if (sigismember(&more, s) == 1)
			sigaddset(&me.wanted, s);
	sigprocmask(SIG_BLOCK, &more, NULL);
	me.signals = signalfd(me.signals > 0 ? me.signals : -1, &me.wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void to_null(void)
{
	int fd = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void trace(const char *role)
{
	for (int i = 0; i < me.kid_count; i++)
		if (!strcmp(me.kids[i].role, role) && ptrace(PTRACE_SEIZE, me.kids[i].pid, 0, 0) < 0)
			die("ptrace");
}

static int starts(const char *token, const char *prefix, const char **value)
{
	size_t n = strlen(prefix);
	*value = token + n;
	return !strncmp(token, prefix, n);
}

char **step(char **token, char **end)
{
	const char *t = *token, *v;
	if (t[0] == '[') {
		char **close_at = token;
		int depth = 0;
		for (; close_at < end; close_at++) {
			depth += (*close_at)[0] == '[';
			depth -= (*close_at)[0] == ']';
			if (depth == 0)
				break;
		}
		spawn(token, close_at);
		return close_at + 1;
	}
	if (!strcmp(t, "setsid")) setsid();
	else if (!strcmp(t, "setpgid")) setpgid(0, 0);
	else if (!strcmp(t, "subreaper")) prctl(PR_SET_CHILD_SUBREAPER, 1);
	else if (!strcmp(t, "no-deathsig")) prctl(PR_SET_PDEATHSIG, 0);
	else if (!strcmp(t, "ignore")) ignore_signals("TERM,INT,HUP");
	else if (!strcmp(t, "null")) to_null();
	else if (!strcmp(t, "hello")) hello();
	else if (!strcmp(t, "kill-zero")) { hello(); kill(0, SIGKILL); }
	else if (!strcmp(t, "spawn")) {}
	else if (starts(t, "ignore=", &v)) ignore_signals(v);
	else if (starts(t, "note=", &v)) want(v);
	else if (starts(t, "term=exit:", &v)) { me.term_exit = (int)number(v); want("TERM"); }
	else if (starts(t, "term=clean:", &v)) {
		me.clean_ms = (int)number(v);
		me.clean_exit = (int)number(strchr(v, ':') + 1);
		want("TERM");
	}
	else if (starts(t, "stdin=exit:", &v)) { me.stdin_exit = (int)number(v); me.stdin_open = 1; }
	else if (starts(t, "stdin=note", &v)) me.stdin_note = me.stdin_open = 1;
	else if (starts(t, "close=", &v)) close((int)number(v));
	else if (starts(t, "name=", &v)) prctl(PR_SET_NAME, v);
	else if (starts(t, "uid=", &v)) { if (setresuid((uid_t)number(v), (uid_t)number(v), (uid_t)number(v)) < 0) die("setresuid"); }
	else if (starts(t, "trace=", &v)) trace(v);
	else if (starts(t, "print=", &v)) { if (dprintf(1, "%s\n", v) < 0) die("print"); }
	else if (starts(t, "exit=", &v)) { hello(); _exit((int)number(v)); }
	else if (starts(t, "raise=", &v)) { hello(); end_by(signal_number(v)); }
	else if (!strcmp(t, "thread")) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, perform, NULL))
			die("pthread_create");
		hello();
		pthread_exit(NULL);
	}
	else { fprintf(stderr, "actor %s: no such step: %s\n", me.role, t); _exit(97); }
	return token + 1;
}

static void act(char **token, char **end)
{
	struct actor parent = me;
	me = (struct actor){.role = *token++, .term_exit = -1, .clean_ms = -1, .stdin_exit = -1};
	memcpy(me.kids, parent.kids, sizeof me.kids);   /* a later sibling may trace an earlier one */
	me.kid_count = parent.kid_count;
	sigemptyset(&me.wanted);
	sigprocmask(SIG_SETMASK, &me.wanted, NULL);   /* a parent that reads signals has them blocked */
	me.connection = join_test();
	while (token < end)
		token = step(token, end);
	hello();
	perform(NULL);
	_exit(98);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	act(argv + 1, argv + argc);
}
