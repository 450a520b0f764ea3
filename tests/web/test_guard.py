"""Who gets in: this machine's browser, by the link, on the page's own account, and nobody else."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from site_of_test import LASTOUT, Server, environment

DATA = ["/api/events", "/api/history", "/api/lease?key=x", "/api/lines/x", "/api/story/x", "/api/x"]


def test_it_listens_on_the_loopback_address_alone(standing: Server) -> None:
    port = f"{standing.port:04X}"
    tables = [Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text()]
    listening = [
        line.split()[1]
        for table in tables
        for line in table.splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port}")
    ]
    assert listening == [f"0100007F:{port}"]


@pytest.mark.parametrize("path", DATA)
def test_without_the_link_there_is_no_data(standing: Server, path: str) -> None:
    let_in = standing.pass_()
    other = {"Cookie": "lastout-1=x", "X-Lastout-Token": "0" * 64}
    for headers in (
        {},
        other,
        {"Cookie": let_in["Cookie"]},
        {"X-Lastout-Token": let_in["X-Lastout-Token"]},
        {**let_in, "X-Lastout-Token": "x"},
        {**let_in, "Cookie": f"lastout-{standing.port}=x"},
    ):
        status, _, body = standing.ask("GET", path, headers=dict(headers))
        assert (status, b"lastout web --link" in body) == (401, True)


def test_no_action_without_the_link(standing: Server) -> None:
    assert standing.ask("POST", "/api/stop/x", {})[0] == 401


@pytest.mark.parametrize("secret", ["", "x", "0" * 43, None, 1, ["x"], "\u00e9\U0001f600"])
def test_a_wrong_secret_opens_nothing(standing: Server, secret: object) -> None:
    status, headers, _ = standing.ask("POST", "/api/session", {"secret": secret})
    assert status == 403
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "10.0.0.1:{port}", "",
     "localhost.evil.example", "evil.example@127.0.0.1:{port}"],
)  # fmt: skip
def test_another_host_is_refused(standing: Server, host: str) -> None:
    """A foreign name that was made to lead here (DNS rebinding) is told nothing, not even a page."""
    named = host.format(port=standing.port)
    for path in ("/", "/static/app.js", "/api/history"):
        status, _, _ = standing.ask("GET", path, headers={**standing.pass_(), "Host": named})
        assert status == 421, path


def test_the_names_of_this_machine_are_known(standing: Server) -> None:
    """A tunnel leads here from another port."""
    for host in (f"localhost:{standing.port}", "127.0.0.1:9", "localhost", "[::1]:80"):
        assert standing.ask("GET", "/", headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", ""]
)
def test_another_origin_is_refused(standing: Server, origin: str) -> None:
    headers = {**standing.pass_(), "Origin": origin.format(port=standing.port)}
    assert standing.ask("POST", "/api/stop/x", {}, headers)[0] == 403
    assert standing.ask("GET", "/api/history", headers=headers)[0] == 403
    assert standing.ask("POST", "/api/session", {"secret": standing.secret}, headers)[0] == 403


def test_an_action_without_an_origin_is_refused(standing: Server) -> None:
    headers = {**standing.pass_(), "Origin": None}
    assert standing.ask("POST", "/api/stop/x", {}, headers)[0] == 403
    assert (
        standing.ask("POST", "/api/session", {"secret": standing.secret}, {"Origin": None})[0]
        == 403
    )


def test_a_browser_that_asks_for_another_site_is_refused(standing: Server) -> None:
    for site in ("cross-site", "same-site", "none"):
        headers = {**standing.pass_(), "Sec-Fetch-Site": site}
        assert standing.ask("GET", "/api/history", headers=headers)[0] == 403


def test_the_cookie_is_for_this_page_alone(standing: Server) -> None:
    _, headers, _ = standing.ask("POST", "/api/session", {"secret": standing.secret})
    parts = {part.strip().lower() for part in headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert standing.secret not in headers["set-cookie"]


def test_every_answer_allows_nothing_from_elsewhere(standing: Server) -> None:
    let_in = standing.pass_()
    for path in ("/", "/static/app.js", "/nothing", "/api/history", "/api/lines/x"):
        _, headers, _ = standing.ask("GET", path, headers=dict(let_in))
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_names_no_other_host_and_writes_no_markup() -> None:
    import lastout.web

    static = Path(lastout.web.__file__).parent / "static"
    for path in static.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "onclick=",
        ):
            assert word not in text, (path, word)


def test_secret_and_port_are_kept_for_their_owner_alone(
    serve: Callable[..., Server], state: Path
) -> None:
    first = serve()
    for name in ("web.json", "web.lock"):
        assert stat.S_IMODE(os.stat(state / name).st_mode) == 0o600
    first.end()
    again = Server(state, "--port", str(first.port))
    try:
        assert again.link == first.link
    finally:
        again.end()


def test_the_port_of_last_time_is_taken_again(serve: Callable[..., Server], state: Path) -> None:
    first = serve()
    first.end()
    again = Server(state, "--state", str(state))
    try:
        assert again.port == first.port
    finally:
        again.end()


def test_a_secret_that_others_could_read_is_not_used(
    serve: Callable[..., Server], state: Path
) -> None:
    first = serve()
    first.end()
    (state / "web.json").chmod(0o644)
    again = serve()
    assert again.secret != first.secret
    assert stat.S_IMODE(os.stat(state / "web.json").st_mode) == 0o600


def test_a_new_secret_shuts_the_old_pages_out(serve: Callable[..., Server]) -> None:
    first = serve()
    let_in = first.pass_()
    first.end()
    again = serve("--new-secret", "--port", str(first.port))
    assert again.secret != first.secret
    assert again.ask("GET", "/api/history", headers=let_in)[0] == 401


def test_what_another_port_got_to_see_opens_nothing(serve: Callable[..., Server]) -> None:
    """Cookies do not know ports: whoever listens on another one can be shown ours."""
    first = serve()
    let_in = first.pass_()
    first.end()
    again = serve()
    assert again.port != first.port
    value = str(let_in["Cookie"]).partition("=")[2]
    let_in["Cookie"] = f"lastout-{again.port}={value}"
    assert again.ask("GET", "/api/history", headers=let_in)[0] == 401


def test_a_second_one_leads_to_the_first(server: Server, state: Path) -> None:
    import subprocess

    words = [*LASTOUT, "web", "--state", str(state)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 1
    assert server.link in done.stderr
    done = subprocess.run(
        [*words, "--link"], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert (done.returncode, done.stdout) == (0, server.link + "\n")
    done = subprocess.run(
        [*words, "--link", "--json"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert json.loads(done.stdout) == {"link": server.link}


def test_no_link_of_one_that_does_not_run(state: Path) -> None:
    import subprocess

    words = [*LASTOUT, "web", "--state", str(state), "--link"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_port_that_is_taken_is_said_so(state: Path) -> None:
    import subprocess

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        words = [*LASTOUT, "web", "--state", str(state), "--port", port]
        done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr


def test_the_link_for_programs(serve: Callable[..., Server]) -> None:
    one = serve("--port", "0", "--json")
    told = json.loads(one.said)
    assert told == {"link": one.link, "pid": one.process.pid}


def test_every_script_is_asked_for_at_once() -> None:
    """One by one, as they name each other, they would come later."""
    import lastout.web

    static = Path(lastout.web.__file__).parent / "static"
    page = (static / "index.html").read_text()
    for path in static.glob("*.js"):
        assert f'"/static/{path.name}"' in page
