"""Jobs and services on the dashboard: told as they change, ended and answered from there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from site_of_test import LASTOUT, Server, environment

from harness.identity import Identity
from harness.jobs import PATIENCE, runners_end
from lastout import jobs
from lastout.services.store import Services

if TYPE_CHECKING:
    from conftest import Eyes


@pytest.fixture
def store(state: Path, nothing_left: set[Identity]) -> Iterator[jobs.Jobs]:
    made = jobs.open_jobs(state)
    yield made
    for status in made.list():
        if not status.ended and status.problem is None:
            jobs.Job(made.state, status.id).cancel(grace=0)
            jobs.Job(made.state, status.id).wait(PATIENCE)
    runners_end(made.state, nothing_left)


def test_a_job_is_told_and_ended(store: jobs.Jobs, server: Server) -> None:
    """The directory of jobs comes into being under the server's eyes."""
    stream = server.stream()
    stream.until(lambda data: data["ready"])
    job = store.submit(jobs.Command(["sh", "-c", "echo first; sleep 60"], name="n<b>"))
    told = stream.until(lambda data: any(one["state"] == "running" for one in data["jobs"]))
    row = told["jobs"][0]
    assert (row["id"], row["name"], row["kind"]) == (job.id, "n<b>", "command")
    status, _, body = server.ask("POST", f"/api/cancel/{job.id}", {}, server.pass_())
    assert (status, b'"settled":true' in body) == (200, True), body
    told = stream.until(lambda data: any(one["state"] == "ended" for one in data["jobs"]))
    assert (told["jobs"][0]["failed"], told["jobs"][0]["why"]) == (True, "abort")
    feed = server.get(f"/api/feed/{job.id}?from=0&count=50")
    assert [line["event"] for line in feed["lines"]][-1] == "ended"
    job.take("test")
    job.remove()
    stream.until(lambda data: ["jobs", job.id] in data["gone"])
    stream.close()


def test_a_job_that_is_over_cannot_be_asked_anything(store: jobs.Jobs, server: Server) -> None:
    job = store.submit(jobs.Command(["true"]))
    job.wait(PATIENCE)
    for what, body in (
        ("message", {"text": "x"}),
        ("answer", {"question": "q", "choice": "c", "values": []}),
    ):
        status, _, said = server.ask("POST", f"/api/{what}/{job.id}", body, server.pass_())
        assert (status, bool(said)) == (409, True)
    assert server.ask("POST", "/api/cancel/nothing", {}, server.pass_())[0] == 404


def test_a_person_ends_a_job(store: jobs.Jobs, server: Server, look: Callable[..., Eyes]) -> None:
    from playwright.sync_api import expect

    job = store.submit(jobs.Command(["sh", "-c", "echo working; sleep 60"]))
    page = look(server).open("#/jobs")
    page.locator(f'.row[data-id="{job.id}"]').click()
    expect(page.locator(".states")).to_contain_text("running")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="End it").click()
    expect(dialog).to_contain_text("nothing of it is left")
    page.keyboard.press("Escape")
    expect(page.locator(".lines")).to_contain_text("ended")
    expect(page.locator(".states")).to_contain_text("failed")
    assert job.result().why == "abort"


def test_a_person_answers_what_an_agent_asks(
    store: jobs.Jobs, server: Server, look: Callable[..., Eyes], tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    mark = tmp_path / "mark"
    prompt = f"/ask touch {mark}\n/say done"
    job = store.submit(
        jobs.AgentTurn(agent="scripted", prompt=prompt, cwd=str(tmp_path), keep=0.0, timeout=60)
    )
    page = look(server).open("#/jobs")
    expect(page.locator('[data-view="jobs"] .alarm')).to_have_text("1")
    page.locator(f'.row[data-id="{job.id}"]').click()
    question = page.get_by_role("region", name="Question")
    expect(question).to_contain_text(str(mark))
    assert not mark.exists()
    question.get_by_role("button").first.click()
    expect(page.locator(".states")).to_contain_text("ended")
    assert (job.wait(PATIENCE).answer, mark.exists()) == ("done ", True)
    expect(question).to_be_hidden()


def test_what_is_filled_in_goes_to_its_field(
    state: Path, server: Server, look: Callable[..., Eyes]
) -> None:
    """A question to the user, as Claude asks one; the answer is what lies in the inbox."""
    from laying import asking_job
    from playwright.sync_api import expect

    job = asking_job(state, fields=("Which colour?", "Which size?"))
    page = look(server).open(f"#/job/{job}")
    question = page.get_by_role("region", name="Question")
    question.get_by_label("Which size?").fill("large")
    question.get_by_label("Which colour?").fill("blue")
    question.get_by_role("button", name="Answer", exact=True).click()
    expect(question).to_contain_text("Answered")
    (answer,) = (state / "jobs" / job / "inbox").iterdir()
    told = json.loads(answer.read_bytes())
    assert told["fields"] == {"Which colour?": "blue", "Which size?": "large"}
    assert told["choice"] == "answer"


def test_a_service_is_told(state: Path, server: Server, look: Callable[..., Eyes]) -> None:
    from playwright.sync_api import expect

    page = look(server).open("#/services")
    expect(page.get_by_text("No services")).to_be_visible()
    owner = Services(str(state))
    owner.add("nightly", ["sh", "-c", "exit 3"], manager="lastout")
    expect(page.locator(".card")).to_contain_text("never started")
    serving = subprocess.Popen(
        [*LASTOUT, "service", "serve", "--state", str(state)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment(),
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        assert b"serving" in serving.stdout.readline()
        begun, _ = owner.run("nightly", timeout=PATIENCE)
        expect(page.locator(".card")).to_contain_text("failed")
        expect(page.locator(".card")).to_contain_text(f"activation {begun.activation}")
        page.locator(".card a").click()
        expect(page.locator(".headline")).to_contain_text("exited with code 3")
    finally:
        owner.quit()
        serving.communicate(timeout=PATIENCE)
