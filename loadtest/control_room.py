"""The control room over HTTP, as the command-line tools use it: the only way to every process in both modes."""

import json
import os
import urllib.error
import urllib.request
from typing import Any


class Refused(Exception):
    """The control room said no, and why."""


class Away(Exception):
    """The control room does not answer: make up"""


class ControlRoom:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    @classmethod
    def of_environment(cls) -> "ControlRoom":
        """As infra/outside.py sets it."""
        return cls(os.environ["CONTROL_ROOM_URL"], os.environ.get("CONTROL_ROOM_TOKEN", ""))

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, **body: Any) -> Any:
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", body, headers, method=method)  # noqa: S310  our own address
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(json.load(error).get("detail", str(error))) from error
        except OSError as error:
            raise Away(f"the control room does not answer at {self._url}: make up  ({error})") from error
