"""The page in a real browser: what a person on call sees and does."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from laying import feed_of, lay, note
from site_of_test import Run, Server

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

from playwright.sync_api import expect

if TYPE_CHECKING:
    from conftest import Eyes

Look = Callable[..., "Eyes"]
Runs = Callable[..., Run]
STUBBORN = (
    "sh",
    "-c",
    "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 60' & while :; do sleep 60; done",
)
EVIL = "<script>window.bad=1</script><img src=x onerror=window.bad=1>\x1b]0;x\x07\u202egnp\u2066 \U0001f680"


def row(page: Any, run: Run) -> Any:
    return page.locator(f'.row[data-id="{run.id}"]')


@pytest.mark.quiet  # its graces are shorter than a freeze
def test_a_run_lives_is_stopped_and_told(server: Server, run: Runs, look: Look) -> None:
    """The way of a person: sees it, opens it, asks for the stop, is asked, and is told the verdict."""
    page = look(server).open()
    expect(page.get_by_text("Nothing runs")).to_be_visible()
    one = run(*STUBBORN, options=("--budget", "codex-sdk", "--key", "talk"))
    expect(row(page, one)).to_have_attribute("data-state", "running")
    row(page, one).click()
    expect(page.locator(".tree tbody tr")).to_have_count(6)
    expect(page.locator(".tree")).to_contain_text("leads")
    expect(page.locator(".claims li").first).to_contain_text("was started as pid")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert one.process.poll() is None, "it was asked and refused: nothing may have happened"
    page.get_by_role("button", name="Stop…").click()
    dialog.get_by_label("Why?").fill("wrong branch")
    dialog.get_by_role("button", name="Stop it").click()
    expect(page.locator(".band .stage.term.now")).to_be_attached()
    expect(row(page, one)).to_have_attribute("data-state", "stopping")
    expect(dialog).to_contain_text(
        "exited: the kernel told the supervisor that nothing of the run was left"
    )
    assert one.process.wait(20) == -signal.SIGTERM
    page.keyboard.press("Escape")
    expect(row(page, one)).to_have_attribute("data-state", "ended")
    expect(page.locator(".marks")).to_contain_text("to the whole tree")
    expect(page.locator(".timeline")).to_be_visible()
    notes = [json.loads(line) for line in one.record.read_text().splitlines() if '"note"' in line]
    assert notes[0]["detail"]["reason"] == "wrong branch"
    page.locator('[data-view="leases"]').click()
    expect(page.locator(".card")).to_contain_text("talk")
    expect(page.locator(".card")).to_contain_text("exited")


def test_without_the_graces(server: Server, run: Runs, look: Look) -> None:
    one = run(*STUBBORN)
    page = look(server).open(f"#/run/{one.id}")
    began = time.monotonic()
    page.get_by_role("button", name="Stop…").click()
    page.get_by_label("Without the graces").check()
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("dialog")).to_contain_text("Done")
    assert time.monotonic() - began < 3, "the term grace of 3 s was to be left out"
    one.process.wait(20)


def test_nothing_that_an_agent_can_print_does_anything(
    server: Server, run: Runs, look: Look
) -> None:
    one = run("sh", "-c", "exec sleep 60", EVIL, options=("--key", EVIL[:60]))
    note(one.record, 1, command=EVIL, output=EVIL + "\nsecond line", exit_code=3)
    eyes = look(server)
    page = eyes.open(f"#/run/{one.id}")
    expect(page.locator("h1")).to_contain_text("<script>window.bad=1</script>")
    expect(page.locator("h1")).to_contain_text("\\u202egnp")
    expect(page.locator("details.command")).to_contain_text("exit 3")
    page.locator("details.command summary").click()
    expect(page.locator("details.command pre")).to_contain_text("second line")
    page.locator(".lines .line", has_text="command").click()
    expect(page.get_by_role("dialog")).to_contain_text("onerror")
    page.keyboard.press("Escape")
    for view in ("leases", "history", "runs"):
        page.locator(f'[data-view="{view}"]').click()
        expect(page.locator("main")).to_contain_text("<script>window.bad=1</script>")
    assert page.evaluate("window.bad") is None
    text = page.locator("body").inner_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)


def test_it_goes_on_by_itself_when_the_server_comes_back(
    serve: Callable[..., Server], run: Runs, look: Look
) -> None:
    one = run("sleep", "60")
    first = serve()
    eyes = look(first)
    page = eyes.open()
    expect(row(page, one)).to_be_visible()
    page.evaluate("window.same = true")
    first.end(signal.SIGKILL)
    expect(page.locator("#pulse")).to_have_attribute("data-now", "away")
    expect(page.locator("#pulse")).to_contain_text("no connection for")
    other = run("sleep", "61")
    serve("--port", str(first.port))
    expect(page.locator("#pulse")).to_have_attribute("data-now", "live")
    expect(row(page, other)).to_have_attribute("data-state", "running")
    one.end()
    expect(row(page, one)).to_have_attribute("data-state", "ended")
    assert page.evaluate("window.same"), "nobody had to load it again"


def test_a_wrong_link_says_what_to_do(server: Server, look: Look) -> None:
    eyes = look(server)
    eyes.page.goto(f"{server.base}/#key={'x' * 43}")
    expect(eyes.page.get_by_role("alert")).to_contain_text("lastout web --link")
    eyes.errors[:] = [error for error in eyes.errors if "403" not in error]
    eyes.page.goto(f"{server.base}/")
    expect(eyes.page.get_by_role("alert")).to_contain_text("opens by its link")


def test_the_secret_does_not_stay_in_the_address(server: Server, look: Look) -> None:
    eyes = look(server)
    page = eyes.open()
    assert server.secret not in page.url
    assert not any(server.secret in url for url in eyes.requests[1:])
    page.reload()
    expect(page.locator("#pulse")).to_have_attribute("data-now", "live")


def test_a_thousand_runs(server: Server, state: Path, run: Runs, look: Look) -> None:
    one = run("sleep", "60")
    eyes = look(server)
    page = eyes.open()
    paths = lay(state, one, 999)
    expect(page.locator('[data-view="runs"]')).to_contain_text("1,000")
    assert page.locator(".row").count() < 60, "only what can be seen has elements"
    note(paths[500], 1, exit_code=1)
    page.get_by_label("Search runs").fill(paths[500].stem)
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row")).to_contain_text("1 of 1 command failed")
    page.keyboard.press("Escape")
    page.locator(".scroll").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(page.locator(".row", has_text=paths[0].stem)).to_be_visible()
    one.end()  # the supervisors of all of them
    expect(page.locator('[data-view="runs"] .alarm')).to_have_text("999")


def test_a_hundred_thousand_lines_of_a_feed(
    serve: Callable[..., Server], state: Path, look: Look
) -> None:
    job = feed_of(state, 100_000)
    page = look(serve()).open(f"#/job/{job}")
    expect(page.get_by_text("100,000 lines")).to_be_visible()
    lines = page.locator(".lines")
    expect(lines.locator(".line", has_text="number 100000")).to_be_visible()
    assert lines.locator(".line").count() < 60
    lines.evaluate("element => element.scrollTop = element.scrollHeight / 2")
    expect(lines.locator(".line", has_text="number 50000").first).to_be_visible()
    lines.evaluate("element => element.scrollTop = 0")
    first = lines.locator(".line", has_text=re.compile("number 2$"))
    expect(first).to_be_visible()
    first.click()
    expect(page.get_by_role("dialog")).to_contain_text('"seq": 2')


def test_everything_by_keyboard(server: Server, run: Runs, look: Look) -> None:
    # With a dot: what is typed below is also looked for in ids and pids.
    ones = [run("sleep", f"{60 + number}.5") for number in range(3)]
    page = look(server).open()
    expect(page.locator(".row")).to_have_count(3)
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(row(page, ones[1])).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("sleep 61.5")
    page.keyboard.press("Escape")
    expect(row(page, ones[1])).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(row(page, ones[0])).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("sleep 62.5")
    expect(page.locator(".row")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("asks first")
    page.keyboard.press("Escape")
    for number, view in enumerate(("Runs", "Jobs", "Services", "Leases", "History"), 1):
        page.keyboard.press(str(number))
        expect(page.locator("[aria-current=page]")).to_contain_text(view)


def test_focus_stays_on_a_run_whose_state_changes(server: Server, run: Runs, look: Look) -> None:
    one = run(*STUBBORN, options=("--budget", "codex-sdk"))
    run("sleep", "60")
    page = look(server).open()
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(row(page, one)).to_be_focused()
    one.process.terminate()
    for state in ("stopping", "ended"):
        expect(row(page, one)).to_have_attribute("data-state", state)
        expect(row(page, one)).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(server: Server, run: Runs, look: Look, scheme: str) -> None:
    """Nothing is wider than the screen, what is touched is large enough, and it can be read."""
    one = run(
        "sh", "-c", "setsid sleep 60 & sleep 61", "a-long-word-" * 30, options=("--key", "k" * 90)
    )
    eyes = look(
        server, viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True,
        is_mobile=True, reduced_motion="reduce",
    )  # fmt: skip
    page = eyes.open()
    row(page, one).tap()
    expect(page.locator(".tree")).to_be_visible()
    expect(page.locator(".timeline")).to_be_visible()
    for where in (f"#/run/{one.id}", "#/runs", "#/jobs", "#/services", "#/leases", "#/history"):
        page.goto(f"{server.base}/{where}")
        expect(page.locator("main > *").first).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, where
        small = page.evaluate(SMALL)
        assert small == [], where
        assert page.evaluate(CONTRAST) == [], where
    assert (
        page.evaluate(
            "getComputedStyle(document.querySelector('.dot') ?? document.body).animationName"
        )
        == "none"
    )


def test_a_page_in_the_background_leaves_its_connection_to_others(
    server: Server, run: Runs, look: Look
) -> None:
    """A browser has six connections to one server; a stream takes one for as long as it lives."""
    eyes = look(server)
    page = eyes.open()
    expect(page.get_by_text("Nothing runs")).to_be_visible()
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    with eyes.context.expect_event("requestfailed", lambda one: "/api/events" in one.url):
        other = eyes.context.new_page()
        other.goto(f"{server.base}/#/runs")
    one = run("sleep", "60")
    expect(row(other, one)).to_be_visible()
    expect(row(page, one)).to_have_count(0)
    page.evaluate(hide, False)
    expect(row(page, one)).to_be_visible()


def test_what_happens_is_said_aloud(server: Server, run: Runs, look: Look) -> None:
    page = look(server).open()
    one = run("sleep", "60")
    expect(page.locator("#say")).to_contain_text("sleep 60 has started")
    one.end()
    expect(page.locator("#say")).to_contain_text("sleep 60 is ended")


def test_runs_of_long_ago_are_found(server: Server, state: Path, run: Runs, look: Look) -> None:
    over = run("sh", "-c", "exit 7", "needle")
    over.process.wait()
    old = over.record.parent.parent / "20200101" / "20200101T000000-aaaaaa.jsonl"
    old.parent.mkdir()
    old.write_text(over.record.read_text().replace(over.id, old.stem))
    page = look(server).open("#/history")
    page.get_by_label("Search all records").fill("needle")
    found = page.locator(".row", has_text=old.stem)
    expect(found).to_contain_text("exit 7")
    found.click()
    expect(page.locator(".headline")).to_contain_text("exited with code 7")


# Elements that somebody is to touch and that are smaller than 32 pixels (text in lines aside).
SMALL = """
[...document.querySelectorAll("button, a, input[type=search]")]
  .filter((e) => e.offsetParent && !e.closest("p, dd, li, .lines"))
  .filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width && (r.height < 32 || r.width < 32);
  })
  .map((e) => e.outerHTML.slice(0, 80))
"""

# Text with a contrast below 4.5 (WCAG AA) to the nearest ground behind it.
CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color[3] > 250) return color;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.checkVisibility()) continue;
    if (e.closest(".unseen, .deep, noscript, .timeline, .skip")) continue;
    const both = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < 4.5) bad.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return bad;
})()
"""
