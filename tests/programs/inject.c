/* Runs CMD and lets one system call of one of its processes go wrong, once:
 *
 *     inject ROLE K WHAT -- CMD ARG...
 *
 * ROLE is front (CMD itself) or keeper (the first process that it forks); K counts that process's
 * system calls from 1, from its exec or fork on; WHAT is an errno's number (the call is not carried
 * out and fails with it), kill or stop (the process gets SIGKILL or SIGSTOP at that call). Then
 * everything is let go. Says on the test's connection which call it was: "note hit N", or "note end"
 * when the process made fewer; ends as CMD ends. Nobody but those two is ever traced past its exec. */
#include "kit.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#if !defined(__x86_64__)
int main(void)
{
	return 77;
}
#else

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | \
                 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

static pid_t traced[64];
static int ntraced, connection = -1;

static void drop(pid_t pid)
{
	for (int i = 0; i < ntraced; i++)
		if (traced[i] == pid)
			traced[i] = traced[--ntraced];
}

static long trace(int request, pid_t pid, long address, long data)
{
	return ptrace((enum __ptrace_request)request, pid, address, data);
}

/* A tracee must be stopped to be let go: interrupt it, take its stop. */
static void let_all_go(pid_t stopped)
{
	for (int i = 0; i < ntraced; i++) {
		int status;
		if (traced[i] != stopped) {
			trace(PTRACE_INTERRUPT, traced[i], 0, 0);
			if (waitpid(traced[i], &status, __WALL) != traced[i] || !WIFSTOPPED(status))
				continue;
			/* A signal on its way is handed on, an event or a stop of ours is not one. A child that was
			 * just made is traced already: it comes last. */
			int event = status >> 16, signal = WSTOPSIG(status);
			unsigned long child;
			if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) &&
			    !ptrace(PTRACE_GETEVENTMSG, traced[i], 0, &child) && ntraced < 64)
				traced[ntraced++] = (pid_t)child;
			trace(PTRACE_DETACH, traced[i], 0, event || signal == (SIGTRAP | 0x80) ? 0 : signal);
			continue;
		}
		trace(PTRACE_DETACH, traced[i], 0, 0);
	}
	ntraced = 0;
}

static long call_number(pid_t pid)
{
	struct user_regs_struct r;
	struct iovec v = {&r, sizeof r};
	return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) ? -1 : (long)r.orig_rax;
}

static int is_entry(pid_t pid)
{
	struct __ptrace_syscall_info info;
	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* At the entry: skip the call; at its exit: what it is said to have answered. */
static void set_registers(pid_t pid, int entry, long error)
{
	struct user_regs_struct r;
	struct iovec v = {&r, sizeof r};
	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v))
		die("PTRACE_GETREGSET");
	if (entry)
		r.orig_rax = (unsigned long long)-1;
	else
		r.rax = (unsigned long long)-error;
	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v))
		die("PTRACE_SETREGSET");
}

static void say(const char *what, long number)
{
	dprintf(connection, "note %s %ld\n", what, number);
}

static void stop_of(pid_t pid, int *status)
{
	if (waitpid(pid, status, __WALL) != pid)
		die("waitpid");
}

/* The chosen call is at its entry. The wait status of a process that was killed, else -1. */
static int inject(pid_t pid, const char *what)
{
	int status;
	long call = call_number(pid);
	if (!strcmp(what, "kill")) {
		/* Only when its tracer has seen its end may its parent see it. */
		kill(pid, SIGKILL);
		do
			stop_of(pid, &status);
		while (WIFSTOPPED(status));
		drop(pid);
		let_all_go(0);
		say("hit", call);
		return status;
	}
	if (!strcmp(what, "stop")) {
		trace(PTRACE_DETACH, pid, 0, SIGSTOP);
		drop(pid);
		let_all_go(0);
		say("hit", call);
		return -1;
	}
	set_registers(pid, 1, 0);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	stop_of(pid, &status);
	if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80))
		set_registers(pid, 0, atol(what));
	let_all_go(pid);
	say("hit", call);
	return -1;
}

static int mirror(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static pid_t start(char **argv, int *gate)
{
	if (pipe2(gate, O_CLOEXEC))
		die("pipe2");
	pid_t pid = fork();
	if (pid == 0) {
		char byte;
		close(gate[1]);
		if (read(gate[0], &byte, 1) < 0)
			die("read");
		execv(argv[0], argv);
		_exit(127);
	}
	close(gate[0]);
	if (trace(PTRACE_SEIZE, pid, 0, OPTIONS))
		die("PTRACE_SEIZE");
	traced[ntraced++] = pid;
	close(gate[1]);
	return pid;
}

int main(int argc, char **argv)
{
	int gate[2], status;
	if (argc < 6 || strcmp(argv[4], "--"))
		return 2;
	int want_keeper = !strcmp(argv[1], "keeper");
	long left = atol(argv[2]);
	connection = join_test();
	tell_hello(connection, "inject");
	pid_t front = start(argv + 5, gate), keeper = 0, role = 0;
	while (ntraced) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			die("waitpid");
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			drop(pid);
			if (pid == front) {
				say("end", 0);
				return mirror(status);
			}
			continue;
		}
		int event = status >> 16, stop = WSTOPSIG(status);
		if (event == PTRACE_EVENT_EXEC) {
			if (pid != front || role) {              /* the root: none of ours */
				trace(PTRACE_DETACH, pid, 0, 0);
				drop(pid);
				continue;
			}
			if (!want_keeper)
				role = front;
		} else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
			unsigned long child;
			ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
			if (ntraced < 64)
				traced[ntraced++] = (pid_t)child;
			if (pid == front && !keeper) {
				keeper = (pid_t)child;
				if (want_keeper)
					role = keeper;
			}
		} else if (stop == (SIGTRAP | 0x80) && pid == role) {
			if (is_entry(pid) && --left == 0) {
				int ended = inject(pid, argv[3]);
				if (pid == front && ended >= 0)
					return mirror(ended);
				break;
			}
		} else if (event == PTRACE_EVENT_STOP) {
			if (stop != SIGTRAP) {                   /* a group stop: leave it stopped */
				trace(PTRACE_LISTEN, pid, 0, 0);
				continue;
			}
		} else if (!event && stop != (SIGTRAP | 0x80)) {
			trace(pid == role ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, stop);
			continue;
		}
		trace(pid == role ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, 0);
	}
	while (waitpid(front, &status, __WALL) < 0 && errno == EINTR)
		;
	return mirror(status);
}
#endif
