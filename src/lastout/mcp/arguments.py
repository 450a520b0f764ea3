"""What each tool takes. The schemas that clients see are made from these structs, and what comes in
is checked against them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

__all__ = [
    "AskAgent",
    "Asked",
    "JobAnswer",
    "JobCancel",
    "JobList",
    "JobMessage",
    "JobResult",
    "JobStatus",
    "RunCommand",
    "ServiceStart",
    "SpawnAgent",
]

LONGEST_WAIT = 86_400

Agent = Annotated[
    str,
    Meta(
        min_length=1,
        description="Which agent: codex, claude, acp:COMMAND LINE or command:COMMAND LINE.",
    ),
]
Prompt = Annotated[
    str,
    Meta(
        min_length=1,
        description="The whole task: the agent knows nothing of this conversation. Name files by "
        "their full path.",
    ),
]
Directory = Annotated[
    str, Meta(description="The directory to work in; the one that this server runs in by default.")
]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="A name for the job that can be used instead of its id.",
    ),
]
Job = Annotated[
    str, Meta(min_length=1, description="The job: its id, its name, or the beginning of its id.")
]
Timeout = Annotated[
    float,
    Meta(ge=1, le=LONGEST_WAIT, description="Seconds for each turn; then everything is ended."),
]
Wait = Annotated[
    float,
    Meta(
        ge=0,
        le=LONGEST_WAIT,
        description="Seconds to wait for the end of the turn; 0 looks and returns at once.",
    ),
]


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one call."""


class AskAgent(Asked, kw_only=True, forbid_unknown_fields=True):
    """Ask an agent, and wait for its answer."""

    agent: Agent
    prompt: Prompt
    cwd: Directory | UnsetType = UNSET
    timeout_s: Timeout = 1800
    name: Name | UnsetType = UNSET
    model: Annotated[str, Meta(description="In the agent's own words.")] | UnsetType = UNSET
    effort: Annotated[str, Meta(description="In the agent's own words.")] | UnsetType = UNSET
    approval: (
        Annotated[
            str,
            Meta(
                description="When the agent asks before it acts, in its own words: codex: untrusted, "
                "on-request, never; claude: default, acceptEdits, plan, bypassPermissions."
            ),
        ]
        | UnsetType
    ) = UNSET
    sandbox: (
        Annotated[str, Meta(description="codex: read-only, workspace-write or danger-full-access.")]
        | UnsetType
    ) = UNSET
    continue_job: (
        Annotated[
            str,
            Meta(description="A job of yours that has ended: its conversation is taken up again."),
        ]
        | UnsetType
    ) = UNSET


class SpawnAgent(AskAgent, kw_only=True, forbid_unknown_fields=True):
    """Start an agent in the background."""

    keep_s: Annotated[
        float,
        Meta(
            ge=0,
            le=LONGEST_WAIT,
            description="Seconds that the agent is kept after a turn for job_message.",
        ),
    ] = 300


class JobStatus(Asked, kw_only=True, forbid_unknown_fields=True):
    """Look at a job."""

    job: Job
    after: Annotated[int, Meta(ge=0, description="Only events of the feed after this number.")] = 0
    limit: Annotated[int, Meta(ge=0, le=1000, description="At most so many, the newest.")] = 30


class JobResult(Asked, kw_only=True, forbid_unknown_fields=True):
    """Take a job's result."""

    job: Job
    turn: Annotated[int, Meta(ge=1, description="Which turn; the last by default.")] | UnsetType = (
        UNSET
    )
    wait_s: Wait = 0


class JobMessage(Asked, kw_only=True, forbid_unknown_fields=True):
    """Send a job's agent another message."""

    job: Job
    text: Annotated[str, Meta(min_length=1)]
    id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=128,
                description="Your own name for the message: sent again under it, it is delivered "
                "once.",
            ),
        ]
        | UnsetType
    ) = UNSET
    wait_s: Wait = 0


class JobAnswer(Asked, kw_only=True, forbid_unknown_fields=True):
    """Answer a job's question."""

    job: Job
    question: (
        Annotated[
            str,
            Meta(min_length=1, description="The question's id; needed when several are open."),
        ]
        | UnsetType
    ) = UNSET
    choice: Annotated[
        str,
        Meta(
            min_length=1,
            description="allow, allow-always, deny or cancel, or the id of one of its choices; "
            "answer for a question with fields.",
        ),
    ]
    fields: Annotated[
        dict[str, str], Meta(description="A value for each field of a question that has some.")
    ] = {}
    wait_s: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=LONGEST_WAIT,
                description="Seconds to wait for the end of the turn. By default a job of "
                "ask_agent or run_command is waited for, one in the background is not.",
            ),
        ]
        | UnsetType
    ) = UNSET


class JobCancel(Asked, kw_only=True, forbid_unknown_fields=True):
    """End a job."""

    job: Job


class JobList(Asked, kw_only=True, forbid_unknown_fields=True):
    """List jobs."""

    whose: Annotated[
        Literal["mine", "all"], Meta(description="Those that you asked for, or everybody's.")
    ] = "mine"
    states: Annotated[
        list[Literal["queued", "starting", "running", "idle", "ended"]],
        Meta(description="Only jobs in these states; all by default."),
    ] = []


class RunCommand(Asked, kw_only=True, forbid_unknown_fields=True):
    """Run a command."""

    command: Annotated[
        list[str],
        Meta(
            min_length=1,
            description='Program and arguments. For a shell\'s syntax: ["sh", "-c", "..."].',
        ),
    ]
    cwd: Directory | UnsetType = UNSET
    env: Annotated[dict[str, str], Meta(description="Added to the environment.")] = {}
    timeout_s: Timeout = 600
    name: Name | UnsetType = UNSET
    background: Annotated[
        bool,
        Meta(
            description="Return at once; the command goes on when you end. job_result has its "
            "result."
        ),
    ] = False


class ServiceStart(Asked, kw_only=True, forbid_unknown_fields=True):
    """Start a service that its owner has provided."""

    name: Annotated[str, Meta(min_length=1, description="The service's name.")]
    activation: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="One that was started before: look at it, or wait for it, and start "
                "nothing.",
            ),
        ]
        | UnsetType
    ) = UNSET
    wait_s: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for its end.")
    ] = 0
