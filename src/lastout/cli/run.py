"""`lastout run`: give the supervisor its place in the process table, and be gone.

No Python stays: this process becomes the front by exec. Everything that the supervisor understands
is handed on as it is; what is decided here is the run's id, its record and its lease.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["execute"]

USAGE = 125  # as in the supervisor's table: nothing was started

HELP = """\
Usage: lastout run [OPTIONS] -- CMD [ARG...]

  Runs CMD with the real stdin, stdout and stderr. Whatever stops the run (a signal, the death of
  whoever started it, a timeout) stops all that CMD started: SIGTERM first, SIGKILL after the grace,
  and this command ends last. What happened is in the run's record: `lastout why RUN`.

Examples:
  lastout run -- codex app-server
  lastout run --budget mcp --stdin-end stop -- npx some-mcp-server
  lastout run --timeout 600 -- make test
  echo prompt | lastout run -- claude -p
  lastout run --owner none -- ./a-daemon &

Options of the record and of the conversation:
  --record PATH              append the record to PATH, not to a new file of the state directory
  --no-record                write no record
  --state DIR                the state directory (default: ~/.local/state/lastout, from the
                             password database)
  --run ID                   the run's id (default: time and a random part)
  --json                     print run id, record and pid as one JSON line on stderr before CMD
                             starts
  --key KEY                  the conversation that CMD may write to: started only when nobody else
                             writes to it; refused with who does, otherwise
  --wait                     with --key: wait for the key instead
  --trace                    ask the kernel who sends signals to the run (needs root), or, without
                             root, how its processes end; refused where neither can be had
  --mask N                   write argument N of CMD as *** in the record (0 is CMD; repeatable);
                             what looks like a key or a password is masked anyway

Options of the supervisor (times in seconds, like 0.5):
  --owner PID:START | none   whose death stops the run (default: whoever started this command)
  --stdin-end stop | ignore  whether the end of stdin stops it (default: ignore)
  --leftovers stop | wait    what to do with processes that outlive CMD (default: stop)
  --timeout S                stop after S seconds; exit status 124
  --budget NAME              graces that fit a host: default mcp acp codex-sdk jupyter claude-sdk
                             trio instant
  --stdin-grace S            for CMD to end after the end of stdin (1; at most 10)
  --term-grace S             after SIGTERM (3; at most 30)
  --reap-bound S             after SIGKILL (1.5; at most 5)
  --contain TIER             subreaper (default), cgroup, pidns: how what CMD starts is held
  --forward SIG[,SIG...]     pass these signals on too (always: USR1 USR2 WINCH CONT)
  --close-fds, --keep-fd N   pass on 0, 1, 2 and N only
  --new-session              a session of its own even with a terminal
  --ctty                     the same, and CMD's stdin, a terminal, becomes its controlling one
  --argv0 NAME  --chdir DIR  --umask OCTAL  --uid N  --gid N  --groups N[,N...]
  --rlimit NAME=SOFT:HARD
  -h, --help

Exit status: CMD's code or signal; death by S when a signal S stopped the run; 124 timeout; 1 when
the owner is refused or the tree is not proven empty; 125 nothing was started (usage, lock busy);
126, 127 CMD cannot be executed, is not there.
"""

# Options without a value; every other one takes the next argument, or what follows its "=".
_FLAGS = frozenset({"--close-fds", "--ctty", "--new-session", "--observe"})


class Usage(Exception):
    """What is wrong with the arguments, in one line."""


def execute(arguments: list[str]) -> NoReturn:
    """Become the supervisor. Ends this process with 125 and one line when that cannot be."""
    try:
        if "-h" in arguments[:1] or "--help" in arguments[:1]:
            sys.stdout.write(HELP)
            sys.stdout.flush()
            sys.exit(0)
        argv, announcement = plan(arguments)
        if announcement is not None:
            os.write(2, announcement)
        os.execv(argv[0], argv)
    except (Usage, ValueError, OSError) as error:
        _fail(error)
    except KeyboardInterrupt:
        _die_of_interrupt()


def plan(arguments: list[str]) -> tuple[list[str], bytes | None]:
    """The supervisor's argv, and the line for `--json`. Raises Usage, ValueError or OSError."""
    ours, theirs, command = _split(arguments)
    if not command:
        raise Usage("there is no command; lastout run [OPTIONS] -- CMD [ARG...]")
    from lastout.state import locate, new_run, record_file, valid_run

    run = ours.get("--run") or new_run()
    if not valid_run(run):
        raise Usage(f"--run takes 1 to 64 of A-Z a-z 0-9 . _ -, not {run!r}")
    record = ours.get("--record")
    if record is not None and "--no-record" in ours:
        raise Usage("--record and --no-record exclude each other")
    options = ["--run", run]
    if record is None and "--no-record" not in ours:
        record = record_file(run, locate(ours.get("--state")))
    if record is not None:
        record = os.path.abspath(record)
        options += ["--record", record]
    if "--stdin-end" not in (option.partition("=")[0] for option in theirs):
        options += ["--stdin-end", "ignore"]
    if record is not None and _could_hold_secrets(command):
        from lastout.evidence.mask import mask_indices

        for position in mask_indices(command):
            options += ["--mask", str(position)]
    if "--trace" in ours:
        if record is None:
            raise Usage("--trace writes into the run's record, and --no-record leaves that out")
        from lastout.evidence.trace.attach import attach

        attach(run, record)
    key = ours.get("--key")
    if key is not None:
        options += _lease(key, run, record, ours.get("--state"), theirs, "--wait" in ours)
    elif "--wait" in ours:
        raise Usage("--wait is for --key: it waits for whoever holds the key")
    argv = [_binary(), *options, *theirs, "--", *command]
    return argv, _announce(run, record) if "--json" in ours else None


def _split(arguments: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Our options, the supervisor's as they stand, and the command."""
    ours: dict[str, str] = {}
    theirs: list[str] = []
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        word = arguments[position]
        position += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word in ("--json", "--no-record", "--wait", "--trace"):
            ours[word] = ""
            continue
        if word in _FLAGS:
            theirs.append(word)
            continue
        if word in ("-h", "--help", "--version"):
            raise Usage(f"{word} stands alone: lastout run --help, lastout --version")
        if not equals:
            if position == len(arguments):
                raise Usage(f"{name} needs a value, and a command after it; see lastout run --help")
            value = arguments[position]
            position += 1
        if name in ("--state", "--record", "--run", "--key"):
            if not value:
                raise Usage(f"{name} needs a value that is not empty")
            ours[name] = value
        else:
            theirs += (word,) if equals else (name, value)
    return ours, theirs, arguments[position:]


def _could_hold_secrets(command: list[str]) -> bool:
    """A quick look, which spares most commands the patterns: they cost 10 ms to load."""
    return any(len(word) >= 16 or word.startswith("-") or "=" in word for word in command[1:])


def _lease(
    key: str, run: str, record: str | None, state: str | None, theirs: list[str], wait: bool
) -> list[str]:
    """The options that make this run the key's only writer. Raises OSError or ValueError when
    refused."""
    from lastout.leases.cli_hook import reserve

    owner = None
    for position, word in enumerate(theirs):
        name, equals, value = word.partition("=")
        if name == "--owner":
            owner = value if equals else theirs[position + 1]
    options: list[str] = reserve(key, run=run, record=record, state=state, owner=owner, wait=wait)
    return ["--key", key, *options]


def _binary() -> str:
    # Where every installation has it; `supervisor.binary` looks in the general way, which costs
    # more than all that is done here, and words the error when it is not there.
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_bin", "lastout-supervisor")
    if os.access(path, os.X_OK):
        return path
    from lastout.errors import SupervisorMissing
    from lastout.supervisor import binary

    try:
        return binary()
    except SupervisorMissing as error:
        raise Usage(str(error)) from None


def _announce(run: str, record: str | None) -> bytes:
    from json import dumps

    return dumps({"run": run, "record": record, "pid": os.getpid()}).encode() + b"\n"


def _fail(error: Exception) -> NoReturn:
    from lastout.errors import in_words

    text = in_words(error)
    if isinstance(error, OSError) and error.strerror:
        text += "; --state DIR names another state directory, --no-record does without a record"
    os.write(2, b"lastout run: " + text.encode(errors="surrogateescape") + b"\n")
    sys.exit(USAGE)


def _die_of_interrupt() -> NoReturn:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    sys.exit(130)


def __getattr__(name: str) -> Any:
    """`command`, for the list of commands: click is imported only there."""
    if name != "command":
        raise AttributeError(name)
    import click
    from click.shell_completion import CompletionItem

    class Run(click.Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            if ctx.resilient_parsing:  # a shell completes the line: nothing of it may be run
                return []
            execute(args)

        def get_help(self, ctx: click.Context) -> str:
            return HELP

        def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
            from re import findall

            options = sorted(set(findall("--[a-z][a-z0-9-]+", HELP)))
            return [CompletionItem(word) for word in options if word.startswith(incomplete or " ")]

    return Run("run", short_help="Run a command so that nobody is left behind.")
