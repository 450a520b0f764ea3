"""Who may see the page: this machine's browser, come by the link, on the page's own account.

Three things are asked of every request for data. The host must be a name of this machine (a foreign
name that was made to lead here is refused: DNS rebinding). Where a browser says on whose account it
asks, that must be this very page. And two proofs of the link are needed: a cookie, which no script
can read, and a token, which no other page can have; the cookie alone would also be sent to other
servers of this machine, since cookies do not know ports.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final

from lastout.web import words
from lastout.web.http1 import Request, Response
from lastout.web.keeping import Keeping

__all__ = ["HEADERS", "Guard"]

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types timeline"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""On every answer. Nothing comes from elsewhere, nothing is written into a page but text."""

_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_MONTH_S: Final = 30 * 86400


class Guard:
    """Lets requests in, or says why not."""

    def __init__(self, keeping: Keeping, port: int) -> None:
        self._secret = keeping.secret
        # Of this port alone: what somebody else on another port gets to see opens nothing here.
        self._cookie = keeping.derived(f"cookie {port}")
        self._token = keeping.derived(f"token {port}")
        self._name = f"lastout-{port}"

    def host(self, request: Request) -> Response | None:
        """The refusal of a request for another host, or on account of another page."""
        host = request.headers.get("host", "").lower()
        name, _, port = host.rpartition(":")
        if not port.isdigit():
            name = host
        if name not in _HOSTS:
            return Response(421, words.OTHER_HOST.encode())
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return Response(403, words.OTHER_ORIGIN.encode())
        return None

    def session(self, secret: object) -> Response | None:
        """The cookie for who has the secret; None for others."""
        if not isinstance(secret, str) or not _equal(secret, self._secret):
            return None
        cookie = (
            f"{self._name}={self._cookie}; Path=/; Max-Age={_MONTH_S}; HttpOnly; SameSite=Strict"
        )
        return Response(headers={"Set-Cookie": cookie})

    @property
    def token(self) -> str:
        """What the page shows beside the cookie."""
        return self._token

    def entry(self, request: Request) -> Response | None:
        """The refusal of a request for data, or None when it may pass."""
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return Response(403, words.OTHER_ORIGIN.encode())
        if request.method == "POST" and "origin" not in request.headers:
            return Response(403, words.NO_ORIGIN.encode())
        # Both are looked at before either decides, so that time tells nothing of which was wrong.
        cookie = _equal(self._given(request), self._cookie)
        token = _equal(request.headers.get("x-lastout-token", ""), self._token)
        return None if cookie & token else Response(401, words.NO_SECRET.encode())

    def _given(self, request: Request) -> str:
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(self._name)
        except CookieError:
            return ""
        return found.value if found is not None else ""


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
