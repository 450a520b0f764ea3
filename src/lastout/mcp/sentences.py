"""Everything that the MCP server tells people and models, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lastout.jobs import feed

if TYPE_CHECKING:
    from lastout.jobs.status import Status

__all__ = [
    "ABOUT",
    "ENDED_WITH_CLIENT",
    "INSTRUCTIONS",
    "NOT_JSON_RPC",
    "SERVICE_GOES_ON",
    "TOOLS",
    "arguments_are",
    "both_ends",
    "command_line",
    "end_of",
    "event",
    "left_out",
    "no_such_directory",
    "no_such_tool",
    "not_ended",
    "not_yours",
    "too_deep",
    "too_long",
    "unexpected",
    "what_next",
    "which_question",
]

ABOUT: Final = "Other coding agents and commands, as jobs that leave nothing behind"
INSTRUCTIONS: Final = (
    "Ask other coding agents (Codex, Claude Code, ACP agents) and run commands, supervised: when a "
    "result is there, nothing that the job started is alive any more. ask_agent and run_command "
    "wait, and end with you. spawn_agent, and run_command with background, return at once and go "
    "on without you: take their results with job_result. When an answer has `questions`, the agent "
    "waits for you: decide, and call job_answer. `next` in each answer says what can be done."
)
TOOLS: Final = {
    "ask_agent": (
        "Ask another agent and wait",
        (
            "Gives another coding agent a task and waits for its answer. The agent ends when this call "
            "is cancelled or you go away, and nothing of it stays. Returns early when the agent asks "
            "something: answer with job_answer, which goes on waiting. `failed_commands` lists what "
            "went wrong on the way, also when the answer does not tell."
        ),
    ),
    "spawn_agent": (
        "Start an agent in the background",
        (
            "Gives another coding agent a task and returns at once with the job's id. The job goes on "
            "when you are restarted or end. Look with job_status, take the answer with job_result."
        ),
    ),
    "job_status": (
        "Look at a job",
        (
            "What a job is doing: state, current line, open questions, and the events of its feed "
            "(commands with exit code, text, questions). Takes nothing."
        ),
    ),
    "job_result": (
        "Take a job's result",
        (
            "The result of a job's turn, waiting up to wait_s for it. Asked again you get the same "
            "result again. Returns early, without a result, when the agent asks something."
        ),
    ),
    "job_message": (
        "Send a job's agent another message",
        (
            "A message for the next turn of an agent in the background, taken when the running turn is "
            "over. For a job that has ended use continue_job of ask_agent or spawn_agent."
        ),
    ),
    "job_answer": (
        "Answer a job's question",
        (
            "Answers what an agent waits for: an approval of something that it wants to do, or a "
            "question. Decide by the question's prompt; deny what you would not do yourself."
        ),
    ),
    "job_cancel": (
        "End a job",
        (
            "Ends a job with everything that it started, and waits until nothing is left. The result "
            "says who had to be stopped."
        ),
    ),
    "job_list": (
        "List jobs",
        "Your jobs, or with whose=all everybody's: those of others can only be looked at.",
    ),
    "run_command": (
        "Run a command",
        (
            "Runs a command under supervision and waits for it: exit code, output (beginning and end "
            "when it is long), and who had to be stopped. With background it returns at once, and the "
            "command goes on without you."
        ),
    ),
    "service_start": (
        "Start a service",
        (
            "Starts, by its name, work that its owner has provided for and that may outlive you. What "
            "it does is the owner's definition; you cannot change it. One that runs already is joined."
        ),
    ),
}
"""Title and description of each tool."""

NOT_JSON_RPC: Final = "not a JSON-RPC message"
SERVICE_GOES_ON: Final = (
    "It goes on, whatever becomes of you. service_start with this activation, and wait_s, waits "
    "for its end and starts nothing."
)
ENDED_WITH_CLIENT: Final = "the client went away"
_LEFT: Final = "\n[... {} left out ...]\n"


def too_long(length: int, most: int) -> str:
    """A message that is not read."""
    return f"a message of {length} bytes; at most {most} are taken"


def no_such_tool(name: str, known: list[str]) -> str:
    """A call of nothing."""
    return f"there is no tool {name!r}; there are {', '.join(known)}"


def arguments_are(tool: str, problem: str, known: list[str], needed: list[str]) -> str:
    """What was given is not what the tool takes."""
    takes = ", ".join(f"{name} (needed)" if name in needed else name for name in known)
    return f"{tool}: {problem}. It takes {takes or 'nothing'}."


def no_such_directory(path: str) -> str:
    """The directory to work in is none."""
    return f"{path!r} is not a directory: name an existing one in cwd, by its full path"


def too_deep(depth: int, most: int) -> str:
    """One agent too many asks the next."""
    return (
        f"you are {depth} deep already (an agent that was asked by an agent), and at most {most} "
        "is allowed: do this yourself, or tell whoever asked you. The owner of this server can "
        "allow more with `lastout mcp --max-depth N`."
    )


def not_yours(job: str, by: str) -> str:
    """Others' jobs are for looking at."""
    return (
        f"job {job} belongs to {by or 'nobody who is known'}, not to you: you can look at it with "
        "job_status, and nothing else"
    )


def which_question(count: int) -> str:
    """A question's id was left out where it was needed."""
    if not count:
        return "the job waits for no answer now; job_status shows what it does"
    return f"the job waits for {count} answers: name the question's id; job_status lists them"


def not_ended(job: str) -> str:
    """A conversation cannot be taken up while its job has it."""
    return f"job {job} has not ended: send it job_message, or end it with job_cancel first"


def unexpected(error: BaseException) -> str:
    """A defect of ours, or a disk that is full."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def command_line(argv: list[str]) -> str:
    """A command in words."""
    import shlex

    return shlex.join(argv)


def what_next(now: Status, mine: bool, *, handed: bool) -> str:
    """What can be done with a job now; "" when there is nothing."""
    if now.problem is not None:
        return "Its files cannot be used by this version: see `problem`."
    if not mine:
        return "It belongs to somebody else: you can only look."
    if now.questions and now.state == "running":
        return "It waits for you: decide, and call job_answer."
    if now.state == "ended":
        how = "" if handed else "job_result has its result. "
        more = "To go on with its conversation: ask_agent or spawn_agent with continue_job."
        return how + more if now.kind == "agent" else how.strip()
    if now.state == "idle":
        how = "" if handed else "job_result has the answer. "
        return how + "Its agent waits for job_message; job_cancel ends it."
    return "It is under way: job_result with wait_s waits for it, job_status shows what it does."


def end_of(text: str, most: int) -> str:
    """The last `most` characters, saying how many were left out."""
    return text if len(text) <= most else f"[{len(text) - most} left out] {text[-most:]}"


def both_ends(text: str, most: int) -> str:
    """The beginning and the end, `most` characters together."""
    if len(text) <= most:
        return text
    half = most // 2
    return text[:half] + _LEFT.format(f"{len(text) - 2 * half} characters") + text[-half:]


def left_out(count: int) -> str:
    """In the middle of an output, `count` bytes are missing."""
    return _LEFT.format(f"{count} bytes") if count else ""


def event(one: feed.FeedEvent) -> str | None:
    """An event of a job's feed as one line of progress; None for what is no news."""
    match one:
        case feed.Progress() | feed.Notice():
            return _line(one.text)
        case feed.Text(role="answer"):
            return _line(one.text) or None
        case feed.CommandRan():
            code = f"exit code {one.exit_code}" if one.exit_code is not None else one.status
            return f"{_line(one.command)} [{code or 'ended'}]"
        case feed.Questioned():
            return f"asks: {_line(one.question.prompt)}"
        case feed.Started():
            return "started"
        case _:
            return None


def _line(text: str) -> str:
    """The beginning of a text in one line."""
    words = " ".join(text.split())
    return words if len(words) <= 200 else words[:199] + "…"
