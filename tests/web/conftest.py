"""A dashboard for a test, and one Chromium for all of them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from site_of_test import Run, Server

from harness.identity import Identity

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def serve(state: Path, nothing_left: set[Identity]) -> Iterator[Callable[..., Server]]:
    """Starts a dashboard of the test's state directory."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        started.append(Server(state, *options))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a file that leave it as it is."""
    state = tmp_path_factory.mktemp("standing") / "state"
    state.mkdir(mode=0o700)
    server = Server(state)
    yield server
    server.end()


@pytest.fixture
def run(state: Path, nothing_left: set[Identity]) -> Iterator[Callable[..., Run]]:
    """Starts a command below a supervisor, with a record in the test's state directory."""
    started: list[Run] = []

    def start(*argv: str, options: tuple[str, ...] = ()) -> Run:
        started.append(Run(state, *argv, options=options))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; it is started before the first test of a file that needs it, and serves all.

    Not for the whole session: while Playwright is there, an event loop runs in this thread.
    """
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    sync.expect.set_options(timeout=20_000)
    with sync.sync_playwright() as playwright:
        options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        try:
            found = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        except sync.Error as error:
            pytest.skip(f"chromium does not start here: {error.message.splitlines()[0]}")
        yield found
        found.close()


class Eyes:
    """A page, and everything of it that no test may overlook."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        self.context = browser.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._console)
        self.server = server

    def _console(self, message: Any) -> None:
        # A server that is away makes the browser say so; that is no fault of the page.
        if message.type == "error" and "ERR_" not in message.text:
            self.errors.append(message.text)

    def open(self, where: str = "") -> Page:
        self.page.goto(self.server.link)
        self.page.locator("#pulse[data-now=live]").wait_for()
        if where:
            self.page.goto(f"{self.server.base}/{where}")
        return self.page


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Eyes]]:
    """Opens a page on a dashboard. At the end of the test it must have had no fault."""
    opened: list[Eyes] = []

    def start(server: Server, **options: Any) -> Eyes:
        opened.append(Eyes(browser, server, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.context.close()
    for one in opened:
        assert one.errors == []
        assert {url for url in one.requests if not url.startswith(one.server.base)} == set()
