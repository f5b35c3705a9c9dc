"""A client of the deployed API with credentials of its own: several callers in one test, each under its role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys
from localstack.deployment import REGION, Credentials

PAGES_MAX = 100
_POOL = urllib3.PoolManager(retries=False, timeout=30.0)


class Caller:
    """Signs every request with SigV4, or shows a key; with neither it calls as nobody."""

    def __init__(self, url: str, credentials: Credentials | None = None, *, key: str | None = None) -> None:
        self._url = url
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._keys = credentials and Keys(
            credentials["AWS_ACCESS_KEY_ID"],
            credentials["AWS_SECRET_ACCESS_KEY"],
            credentials.get("AWS_SESSION_TOKEN"),
        )

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """(status, JSON of the answer)."""
        text = None if body is None else json.dumps(body).encode()
        request = AWSRequest(method, self._url + path, {"Content-Type": "application/json"} | self._headers, text)
        if self._keys:
            SigV4Auth(self._keys, "execute-api", REGION).add_auth(request)
        answer = _POOL.request(method, self._url + path, body=text, headers=dict(request.headers.items()))
        return answer.status, json.loads(answer.data or b"null")

    def ok(self, method: str, path: str, body: object = None) -> Any:
        status, found = self.call(method, path, body)
        assert 200 <= status < 300, f"{method} {path} answered {status}: {found}"
        return found

    def pages(self, path: str, field: str) -> Iterator[Any]:
        """Every entry of a list, page by page."""
        cursor = ""
        for _ in range(PAGES_MAX):
            page = self.ok("GET", f"{path}&cursor={cursor}" if cursor else path)
            yield from page[field]
            cursor = page["cursor"]
            if not cursor:
                return
        raise AssertionError(f"{path} has more than {PAGES_MAX} pages")
