"""Requests that are odd are refused, and hold up nobody."""

from __future__ import annotations

import socket

import pytest
from site_of_test import BOUND, Server

HOST = b"Host: 127.0.0.1\r\n"


def say(server: Server, data: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
        return answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"DELETE / HTTP/1.1\r\n" + HOST + b"\r\n", 405),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET //evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /\x80 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b" folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"bad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 421),
        (b"POST / HTTP/1.1\r\n" + HOST + b"\r\n", 411),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /static/../server.py HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET /static/%2e%2e%2fserver.py HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    ],
)
def test_an_odd_request_is_refused(standing: Server, data: bytes, status: int) -> None:
    answer = say(standing, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert standing.ask("GET", "/")[0] == 200


def test_requests_follow_each_other_on_one_connection(standing: Server) -> None:
    one = b"GET /static/icon.svg HTTP/1.1\r\n" + HOST
    answer = say(standing, (one + b"\r\n") * 3)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert say(standing, one + b"Connection: close\r\n\r\n" + one + b"\r\n").count(b"200 OK") == 1


def test_what_is_not_new_is_not_sent_again(standing: Server) -> None:
    _, headers, body = standing.ask("GET", "/static/app.js")
    assert body
    status, _, nothing = standing.ask(
        "GET", "/static/app.js", headers={"If-None-Match": headers["etag"]}
    )
    assert (status, nothing) == (304, b"")
    assert standing.ask("HEAD", "/")[2] == b""


def test_who_says_nothing_holds_up_nobody(server: Server) -> None:
    quiet = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for half in quiet[:50]:
        half.sendall(b"GET / HTTP/1.1\r\nHost: 127")
    assert server.ask("GET", "/")[0] == 200
    assert server.end() < 3
    for one in quiet:
        one.close()
