"""HTTP POST to push targets, over sockets that this module opens itself.

A name is resolved here, every address it has is checked, and the connection goes to the address that was checked:
a name that changes between check and connect (DNS rebinding) gains nothing. Redirects start over. Proxies of the
environment are not used: they would resolve the name again.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urljoin

from tickwork.core.errors import CallerError
from tickwork.core.runs.push_targets import Target, parse_target, why_refused
from tickwork.core.runs.pushes import Answer

REDIRECTS_MAX = 3
_FOLLOWED = frozenset({307, 308})
"""The redirects that keep the method and the body. Others turn a POST into a GET, which nobody asked for."""
DETAIL_BYTES_MAX = 512
"""Of an answer's body, for the history; the rest is not read."""

type Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class SocketPoster:
    """A `ports.Poster`. `allow_private` is for one machine's own use: it lets a push reach this host."""

    def __init__(
        self, *, allow_private: bool = False, resolve: Resolve = resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allow_private = allow_private
        self._resolve = resolve
        self._tls = tls or ssl.create_default_context()

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> Answer:
        deadline_s = time.monotonic() + timeout_ms / 1_000
        for _ in range(REDIRECTS_MAX + 1):
            answer, location = self._exchange(target, body, headers, deadline_s)
            if answer.status not in _FOLLOWED or not location:
                return answer
            try:
                onward = parse_target(urljoin(target.origin + target.path, location), allow_private=self._allow_private)
            except (CallerError, ValueError) as error:  # ValueError: what somebody sent as a Location is no URL
                return Answer(0, error_class="AddressRefused", detail=f"redirected to a place that is refused: {error}")
            if (target.scheme, onward.scheme) == ("https", "http"):
                return Answer(0, error_class="AddressRefused", detail="redirected from https to http")
            target = onward
        return Answer(0, error_class="Unreachable", detail=f"more than {REDIRECTS_MAX} redirects")

    def _exchange(
        self, target: Target, body: bytes, headers: Mapping[str, str], deadline_s: float
    ) -> tuple[Answer, str]:
        """One request, and where its answer redirects to."""
        try:
            addresses = self._addresses(target)
        except (OSError, ValueError) as error:  # ValueError: a name that no resolver can be asked for
            return Answer(0, error_class="Unreachable", detail=f"{target.host} is not resolved: {error}"), ""
        if not addresses:
            return Answer(0, error_class="AddressRefused", detail=f"{target.host} has an address that is refused"), ""
        watched = _Watched(target, addresses, self._tls, deadline_s)
        try:
            return watched.post(body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, TimeoutError) or time.monotonic() >= deadline_s:
                return Answer(0, error_class="TimedOut", detail="no answer in time"), ""
            return Answer(0, error_class="Unreachable", detail=repr(error)[:200]), ""
        finally:
            watched.close()

    def _addresses(self, target: Target) -> Sequence[str]:
        """The addresses of the target's name; none when any of them is refused."""
        addresses = self._resolve(target.host, target.port)
        if self._allow_private or all(why_refused(address) is None for address in addresses):
            return addresses
        return ()


class _Watched:
    """A connection that is cut off at its deadline, however slowly the other side drips."""

    def __init__(self, target: Target, addresses: Sequence[str], tls: ssl.SSLContext, deadline_s: float) -> None:
        self._target, self._addresses, self._tls, self._deadline_s = target, addresses, tls, deadline_s
        self._connection = http.client.HTTPConnection(target.host, target.port)
        self._guard = threading.Timer(max(0.0, deadline_s - time.monotonic()), self._cut)
        self._guard.daemon = True
        self._socket: socket.socket | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, str]:
        self._guard.start()
        self._connection.sock = self._connect()
        sent = {"Host": self._target.host_header, "Connection": "close", "Accept-Encoding": "identity", **headers}
        self._connection.request("POST", self._target.path, body, sent)
        response = self._connection.getresponse()
        self._left_s()  # headers that were cut off look like headers that have ended
        detail = "" if 200 <= response.status < 300 else response.read(DETAIL_BYTES_MAX).decode(errors="replace")
        answer = Answer(response.status, response.getheader("Retry-After", ""), detail=detail)
        return answer, response.getheader("Location", "")

    def _connect(self) -> socket.socket:
        failure: OSError | None = None
        for address in self._addresses:
            try:
                raw = socket.create_connection((address, self._target.port), timeout=self._left_s())
            except OSError as error:
                failure = error
                continue
            self._socket = raw
            raw.settimeout(self._left_s())
            if self._target.scheme == "https":
                self._socket = self._tls.wrap_socket(raw, server_hostname=self._target.host)
            return self._socket
        raise failure or TimeoutError

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _cut(self) -> None:
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def close(self) -> None:
        self._guard.cancel()
        self._connection.close()
