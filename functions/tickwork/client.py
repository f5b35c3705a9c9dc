"""A client of the HTTP API, for the command line and the worker: JSON over HTTP, signed when the API asks for it.

Owns what may be repeated, and how often; urllib3 repeats it. Knows no flow and no table: it is what any other language
would write. Protects: a call that must not be repeated is sent once.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from tickwork.core.errors import TickworkError

DEFAULT_URL = "http://127.0.0.1:8787"
TIMEOUT_S = 30.0
TRIES_MAX = 4
"""Of a call that may be repeated. An API that is away for longer than a second or two is its caller's to wait for."""
PAUSE_S = 0.2
"""The second try follows at once, the third after twice this and the fourth after four times, if the API names no time.
All of them are sent with one signature, which is good for five minutes."""
RETRY_AFTER_S_MAX = 10
"""A `Retry-After` is waited for so long at most: somebody sits at the command line, or a run waits for its start."""
PAGE = 100
PERMANENT = frozenset({400, 401, 403, 404, 405, 410, 415, 422})
"""Statuses that no repetition mends. The others of their class are about the moment: a version, or a conflict."""


_REPEATED = urllib3.Retry(
    total=TRIES_MAX - 1,
    status_forcelist={429, *range(500, 600)},
    allowed_methods=None,  # any: what the API has already done, it answers again in the same words
    backoff_factor=PAUSE_S,
    raise_on_status=False,  # the last answer is read like any other
    retry_after_max=RETRY_AFTER_S_MAX,
)


_AT_THE_DOOR = {
    401: "the API asks who calls: give it a key (TICKWORK_API_KEY)",
    403: "sent away at the door of the API: the key is incomplete or of another environment, or the principal may not "
    "call it",
}
"""What stands for the words of API Gateway, which has only one for each."""


class ApiRefused(TickworkError):
    """The API answered with a problem document: `problem` is that document, `status` its HTTP status."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        said = problem.get("detail") or problem.get("title") or _AT_THE_DOOR.get(status)
        super().__init__(str(said or f"HTTP {status}"))
        self.status = status
        self.problem = problem

    @property
    def is_permanent(self) -> bool:
        """Whether the same call will be refused the next time too: it, its caller or its address is at fault."""
        return self.status in PERMANENT

    @property
    def refuses_the_caller(self) -> bool:
        """Whether it is who calls that is at fault, whatever was asked."""
        return self.status in (401, 403)


class BadApiUrl(TickworkError):
    """What was given is no URL of an API."""


class ApiUnreachable(TickworkError):
    """The API could not be reached, or kept failing; whether the request took effect is not known."""


class ApiClient:
    """Calls the API at a base URL. `auth` is 'key' (an API key), 'iam' (SigV4, with the credentials boto3 would use) or
    'none'. With an `api_key` (TICKWORK_API_KEY) it is 'key', where nothing else is asked for.

    Every call of the API may be repeated safely (creation by name or client_key, claims, tokens), so a call
    whose reply was lost is repeated. `post` gives each timer and each run by hand that has none a client_key: one wish,
    one key, on all tries. `repeat=False` sends what it is given, once; a lost answer is then the caller's to live with.
    """

    def __init__(self, url: str | None = None, auth: str | None = None, api_key: str | None = None) -> None:
        self.url = _checked((url or os.environ.get("TICKWORK_API_URL") or DEFAULT_URL).rstrip("/"))
        host = urlsplit(self.url).hostname or ""
        self._key = (api_key or os.environ.get("TICKWORK_API_KEY") or "").strip()
        usual = "key" if self._key else "iam" if host.endswith(".amazonaws.com") else "none"
        self._auth = auth or os.environ.get("TICKWORK_AUTH") or usual
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT_S, maxsize=16)

    def get(self, path: str, **query: object) -> Any:
        return self.call("GET", path + _query(query))

    def get_all(self, path: str, name: str, **query: object) -> list[Any]:
        """All entries of a list, page by page."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            page = self.get(path, limit=PAGE, cursor=cursor, **query)
            found += page[name]
            cursor = page["cursor"]
            if cursor is None:
                return found

    def post(
        self,
        path: str,
        body: object,
        *,
        repeat: bool = True,
        timeout_s: float = TIMEOUT_S,
        traceparent: str | None = None,
    ) -> Any:
        """`traceparent`: the W3C trace that a timer's run is to carry on."""
        body = _with_client_keys(path, body) if repeat else body
        return self.call("POST", path, body, repeat=repeat, timeout_s=timeout_s, traceparent=traceparent)

    def patch(self, path: str, body: object) -> Any:
        return self.call("PATCH", path, body)

    def delete(self, path: str, **query: object) -> Any:
        return self.call("DELETE", path + _query(query))

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        repeat: bool = True,
        timeout_s: float = TIMEOUT_S,
        traceparent: str | None = None,
    ) -> Any:
        """The answer's JSON; `timeout_s` bounds each try. ApiRefused (4xx), or ApiUnreachable (after the last try)."""
        text = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method,
                self.url + path,
                body=text,
                headers=self._headers(method, path, text) | ({"traceparent": traceparent} if traceparent else {}),
                timeout=timeout_s,
                retries=_REPEATED if repeat else False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            why = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error
            raise ApiUnreachable(f"no answer from {self.url}: {why}") from error
        if answer.status >= 500 or answer.status == 429:
            said = answer.data[:200].decode(errors="replace")
            raise ApiUnreachable(f"{self.url} answered {answer.status}: {said}")
        return self._decode(answer)

    def _decode(self, answer: urllib3.BaseHTTPResponse) -> Any:
        try:
            found = json.loads(answer.data or b"null")
        except ValueError:
            raise ApiUnreachable(f"{self.url} did not answer with JSON: is it a tickwork API?") from None
        if answer.status >= 400:
            raise ApiRefused(answer.status, found if isinstance(found, dict) else {"detail": str(found)})
        return found

    def _headers(self, method: str, path: str, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        if self._auth == "key":
            return headers | {"Authorization": f"Bearer {self._key}"}
        if self._auth != "iam":
            return headers
        return _signed(method, self.url + path, body, headers)


def _query(query: Mapping[str, object]) -> str:
    """What stands behind a path; what is None is left out."""
    chosen = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(chosen, quote_via=quote)}" if chosen else ""


def new_client_key() -> str:
    """What nobody else calls a timer, or a run by hand, by."""
    return f"once-{uuid.uuid4().hex}"


def _with_client_keys(path: str, body: object) -> object:
    """The body with a key for each timer, or run by hand, that has none."""
    if path == "/timers" and isinstance(body, dict):
        return _with_client_key(body)
    if path.startswith("/jobs/") and path.endswith(("/run", "/backfills")):
        return _with_client_key(body)
    if path == "/timers:batch" and isinstance(body, dict) and isinstance(body.get("timers"), list):
        return {**body, "timers": [_with_client_key(one) for one in body["timers"]]}
    return body


def _with_client_key(timer: Any) -> Any:
    if not isinstance(timer, dict) or timer.get("client_key") is not None:
        return timer
    return {**timer, "client_key": new_client_key()}


def _checked(url: str) -> str:
    """The URL itself. BadApiUrl says what is missing: else the answer would be that nobody listens."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or beyond 65535
        is_whole = False
    if not is_whole:
        raise BadApiUrl(f"{url!r} is no address of an API: write it like {DEFAULT_URL}, with a port from 1 to 65535")
    return url


def path_of(*parts: str) -> str:
    """A path with each part escaped."""
    return "/" + "/".join(quote(part, safe=":~") for part in parts)


def _signed(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> dict[str, str]:
    # Imported here: only a deployed API needs signing, and boto3 takes half a second to import.
    import boto3
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    request = AWSRequest(method=method, url=url, data=body, headers=headers)
    try:
        session = boto3.Session()
        credentials = session.get_credentials()
        if credentials is not None:
            SigV4Auth(credentials, "execute-api", session.region_name or "us-east-1").add_auth(request)
    except (BotoCoreError, RuntimeError) as error:  # RuntimeError: renewed, and expired all the same
        raise ApiUnreachable(f"AWS gives no credentials to sign with now: {error}") from error
    if credentials is None:
        raise ApiUnreachable("the API wants signed requests, and there are no AWS credentials: configure some")
    return dict(request.headers.items())
