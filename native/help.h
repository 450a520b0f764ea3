/* What --help prints. The same text in full: docs/reference/supervisor.md. */
#define HELP \
"lastout-supervisor [OPTIONS] -- CMD [ARG...]\n" \
"\n" \
"Runs CMD with the real stdin, stdout and stderr; when anything stops the run, stops all that CMD started:\n" \
"SIGTERM first, SIGKILL after the grace, and ends last. Times are in seconds (0.5).\n" \
"\n" \
"  --owner PID:START | none   whose death stops the run (default: the parent's)\n" \
"  --stdin-end stop | ignore  whether the end of stdin stops it (default: stop)\n" \
"  --leftovers stop | wait    what to do with processes that outlive CMD (default: stop)\n" \
"  --contain TIER             subreaper (default), cgroup, pidns: how what it starts is held; see doctor\n" \
"  --timeout S                stop after S seconds; exit status 124\n" \
"  --budget NAME              graces that fit a host: default mcp acp codex-sdk jupyter claude-sdk trio instant\n" \
"  --stdin-grace S --term-grace S --reap-bound S   (1, 3, 1.5; at most 10, 30, 5)\n" \
"  --forward SIG[,SIG...]     pass these on too (always: USR1 USR2 WINCH CONT)\n" \
"  --record PATH              append what happens as JSON lines\n" \
"  --control FD               a socket: the same lines out, commands in\n" \
"  --observe --observe-bound S   hold CMD unreaped at its end until `acknowledge` or S (1; at most 2) is over\n" \
"  --run ID --key KEY         names for the record\n" \
"  --lock PATH --epoch N      hold this lock while anything of the supervisor lives\n" \
"  --close-fds --keep-fd N    pass on 0, 1, 2 and N only\n" \
"  --new-session              a session of its own even with a terminal\n" \
"  --ctty                     a session of its own, and stdin as its controlling terminal\n" \
"  --argv0 NAME --chdir DIR --umask OCTAL --uid N --gid N --groups N[,N...] --rlimit NAME=SOFT:HARD\n" \
"  --mask N                   write argument N as *** in the record\n" \
"  --version --help\n" \
"\n" \
"Exit status: that of CMD (also its signal); death by S when a signal S stopped the run; 124 timeout; 1 owner refused\n" \
"or tree not proven empty; 125 not started; 126, 127 CMD cannot be executed, is not there.\n" \
"\n" \
"  lastout-supervisor -- codex app-server\n" \
"  lastout-supervisor --budget mcp -- npx some-mcp-server\n" \
"  lastout-supervisor --stdin-end ignore --timeout 600 -- make test\n"
