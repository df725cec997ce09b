"""Who may break things: programs with the token, and a page that was opened with it.

A program sends `Authorization: Bearer <token>`. A person opens the link that `make up` prints (/?token=…): the page
gets a cookie that scripts cannot read, and the token leaves the address bar. The cookie alone is not enough to change
anything: to a browser every port of this machine is the same site, so SameSite does not keep the pages of other local
servers out. Requests that change something therefore also carry a header whose value only this page was given.
(That keeps pages out, not programs: a server on another port of this host is sent the cookie by the browser, and could
read the page with it. On a machine shared with people whom you do not trust, leave CONTROL_ROOM_TOKEN empty.)
"""

import hashlib
import hmac
from collections.abc import Callable

from flask import Response, redirect, request

from shared.runtime.problems import Problem

COOKIE = "control_room"
HEADER = "X-CSRF-Token"
SAFE = ("GET", "HEAD", "OPTIONS")


class Access:
    def __init__(self, token: str) -> None:
        self._token = token
        self._cookie, self.page_token = self._derived("cookie"), self._derived("page")

    def _derived(self, use: str) -> str:
        """What leaks from a browser is not the token, and does not open the API to programs."""
        return hmac.new(self._token.encode(), use.encode(), hashlib.sha256).hexdigest()

    def by_token(self) -> bool:
        return self._is(request.headers.get("Authorization", ""), f"Bearer {self._token}")

    def by_page(self) -> bool:
        return self._is(request.cookies.get(COOKIE, ""), self._cookie)

    def granted(self) -> bool:
        return self.by_token() or self.by_page()

    def _is(self, given: str, wanted: str) -> bool:
        return bool(self._token) and hmac.compare_digest(given.encode(), wanted.encode())

    def required(self) -> Callable[[], None]:
        """A `before_request` for everything that changes something or shows customers' data."""

        def check() -> None:
            if self.by_token():
                return
            if not self.by_page():
                raise Problem(403, "read-only", "This needs the token: open the link that `make up` prints.")
            if request.method not in SAFE and not self._is(request.headers.get(HEADER, ""), self.page_token):
                raise Problem(403, "cross-site", "This request did not come from the control room's page.")

        return check

    def let_in(self) -> Response | None:
        """The answer to /?token=…: the token becomes a cookie."""
        given = request.args.get("token")
        if given is None:
            return None
        response = redirect("/", 303)
        if self._is(given, self._token):
            response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="Strict", path="/")
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response  # type: ignore[return-value]
