"""From an agent's words to the lines of a feed, and from an answer to a choice: without any process."""

from __future__ import annotations

from typing import Any

import pytest

from lastout.agents import events
from lastout.host.quiet import Quiet, Stopped
from lastout.identity import ProcessIdentity
from lastout.jobs import feed, turns_result
from lastout.jobs.status import Choice, Question
from lastout.jobs.turns_answer import chosen
from lastout.jobs.turns_feed import TEXT_KEPT, Story
from lastout.jobs.work import Answer


class Paper:
    """The part of a runner that a story writes on."""

    def __init__(self) -> None:
        self.events: list[feed.FeedEvent] = []
        self.told: dict[str, Any] = {}

    def emit(self, event: feed.FeedEvent) -> int:
        self.events.append(event)
        return len(self.events)

    def describe(self, **fields: Any) -> None:
        self.told |= fields

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture
def story(paper: Paper) -> Story:
    return Story(paper)  # type: ignore[arg-type]


def say(story: Story, *words: str) -> None:
    for word in words:
        story.hear(events.Text(text=word))


def test_words_become_lines_and_nothing_of_them_is_lost(paper, story):
    words = ["one ", "two\n", "\n", "\nthree", " four\nfive", "\n", "\n\n", "six"]
    say(story, *words)
    before = [one.text for one in paper.of(feed.Text)]
    assert before == ["one two\n", "\n\nthree four\n", "five\n"], "an empty line waits"
    story.end()
    texts = [one.text for one in paper.of(feed.Text)]
    assert "".join(texts) == "".join(words)


def test_a_long_line_comes_in_pieces(paper, story):
    say(story, *["x" * 1000] * 9)
    story.end()
    texts = [one.text for one in paper.of(feed.Text)]
    assert "".join(texts) == "x" * 9000
    assert max(map(len, texts)) <= 4000


def test_thoughts_and_answer_keep_their_order(paper, story):
    story.hear(events.Thinking(text="hm"))
    say(story, "yes")
    story.hear(events.Thinking(text="but"))
    story.end()
    assert [(one.role, one.text) for one in paper.of(feed.Text)] == [
        ("thought", "hm"),
        ("answer", "yes"),
        ("thought", "but"),
    ]


def test_what_was_said_before_a_command_stands_before_it(paper, story):
    say(story, "I look")
    story.hear(events.CommandStarted(item="1", command="ls"))
    story.hear(events.CommandEnded(item="1", status="completed", exit_code=0, output="a\n"))
    assert [type(one).__name__ for one in paper.events] == ["Text", "Progress", "CommandRan"]


def test_a_command_that_never_ended_is_named_at_the_end_and_told_once(paper, story):
    story.hear(events.CommandStarted(item="1", command="sleep 9"))
    story.end()
    story.hear(events.CommandEnded(item="1", status="failed", exit_code=137))
    (ran,) = paper.of(feed.CommandRan)
    assert (ran.phase, ran.exit_code, story.commands) == ("unfinished", None, 1)


def test_a_flood_of_current_lines_is_not_written_down(paper, story):
    story.hear(events.CommandStarted(item="1", command="make"))
    for number in range(1000):
        story.hear(events.CommandOutput(item="1", text=f"line {number}\n"))
    assert len(paper.of(feed.Progress)) <= 2


def test_a_turn_has_only_so_much_room_and_that_is_said_once(paper, story):
    for _ in range(300):
        say(story, "y" * 4999 + "\n")
    story.end()
    assert sum(len(one.text) for one in paper.of(feed.Text)) == TEXT_KEPT
    assert len(paper.of(feed.Notice)) == 1
    story.begin()
    say(story, "again\n")
    assert paper.of(feed.Text)[-1].text == "again\n"


def test_the_current_line_goes_with_its_turn(paper, story):
    story.progress("at work")
    story.end()
    assert paper.told["progress"] is None
    story.progress("at work")
    assert len(paper.of(feed.Progress)) == 2


APPROVAL = Question(
    id="q", prompt="Run: ls", choices=(Choice(id="accept", meaning="allow"), Choice(id="decline"))
)
ASKED = Question(
    id="q", kind="input", prompt="Which?", choices=(Choice(id="answer"),), fields=("colour", "size")
)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (APPROVAL, {"choice": "accept"}, ("accept", {})),
        (APPROVAL, {"choice": "decline", "text": "no"}, ("decline", {"reason": "no"})),
        (ASKED, {"text": "blue"}, ("answer", {"colour": "blue"})),
        (ASKED, {"fields": {"size": "2"}}, ("answer", {"size": "2"})),
        (ASKED, {"choice": "answer", "fields": {"size": "2"}}, ("answer", {"size": "2"})),
        (None, {"choice": "accept"}, ("accept", {})),
    ],
)
def test_what_an_answer_comes_to(question, answer, expected):
    assert chosen(question, Answer(question="q", **answer)) == expected


@pytest.mark.parametrize("question", [APPROVAL, None])
def test_a_text_alone_approves_nothing(question):
    with pytest.raises(ValueError, match="one of its choices"):
        chosen(question, Answer(question="q", text="yes please"))


def one(pid: int) -> Stopped:
    return Stopped(ProcessIdentity(pid, 1, 0, "boot", 1), "sh")


def test_nobody_is_named_twice_when_the_agent_is_ended_after_all():
    first = Quiet(kept=True, stopped=(one(2), one(3)), stopped_count=2)
    then = Quiet(stopped=(one(3), one(4)), stopped_count=2)
    both = turns_result.merged(first, then)
    assert [stopped.identity.pid for stopped in both.stopped] == [2, 3, 4]
    assert (both.stopped_count, both.kept) == (3, False)


@pytest.mark.parametrize(
    ("quiet", "left"),
    [
        (Quiet(), 0),
        (Quiet(proven=False), None),
        (Quiet(remaining=(one(2),), remaining_count=1, proven=False), 1),
        (Quiet(remaining=(one(2),), remaining_count=1), 1),
    ],
)
def test_only_what_was_proven_is_none_left(quiet, left):
    assert turns_result.remaining(quiet) == left
    result = turns_result.ended(
        quiet, why="completion", by=None, undelivered=(), locks=(), conversation=None
    )
    assert (result.failed, result.remaining_count) == (left != 0, left)
