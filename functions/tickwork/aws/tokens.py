"""Tokens through PyJWT, and an issuer's documents over HTTPS.

Owns the library and the sockets. Refuses to know what claims mean and how long keys are kept. The library and what it
brings take a tenth of a second to import, so they are imported by the first token and not by the first request.
Protects: what is read is the configured issuer's own, complete, small, and over TLS.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tickwork.core.access.issuers import Issuer, is_safe_url
from tickwork.core.access.tokens import ALGORITHMS, Key
from tickwork.core.errors import BadToken

ASKS_WITHIN_S = 3.0
"""For one document; there are two. An authorizer has nine seconds."""
DOCUMENT_BYTES_MAX = 256_000
_CHUNK = 16_384
DISCOVERY = "/.well-known/openid-configuration"
REQUIRED = ("exp", "iss", "aud", "sub")


class JwtDesk:
    """A `ports.KeyDesk`."""

    def published(self, issuer: Issuer) -> object:
        return read_document(issuer.keys_url or _keys_url(issuer))

    def proven(self, text: str, key: Key, issuer: Issuer) -> Mapping[str, Any]:
        import jwt

        try:
            return jwt.decode(
                text,
                jwt.PyJWK(dict(key), algorithm="RS256" if key["kty"] == "RSA" else "ES256"),
                algorithms=list(ALGORITHMS),
                audience=issuer.audience,
                issuer=issuer.url,
                # Instants are judged by the core, by the clock that everything else goes by.
                options={
                    "require": list(REQUIRED),
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadToken(
                f"this token is not taken: {str(error)[:200]}",
                remedy=f"use one of {issuer.url} for the audience {issuer.audience}",
            ) from None


def _keys_url(issuer: Issuer) -> str:
    """Where the issuer says that its keys are. ValueError when it is not the issuer who says so."""
    found = read_document(issuer.url.rstrip("/") + DISCOVERY)
    if not isinstance(found, Mapping) or found.get("issuer") != issuer.url:
        raise ValueError(
            f"the discovery document is not of {issuer.url}: set keys=... in TICKWORK_OIDC, or mend issuer="
        )
    url = str(found.get("jwks_uri", ""))
    if not is_safe_url(url):
        raise ValueError(f"the keys are at {url[:120]!r}, which does not begin with https://")
    return url


def read_document(url: str, within_s: float = ASKS_WITHIN_S) -> object:
    """The JSON at a URL. OSError or ValueError, also for an answer that is not 200: redirects are not followed.

    The library bounds each wait and not their sum: a name of many addresses, none of which answers, or a head that
    drips would outlast the function, and with its process go the keys that it has kept for such a time. So a thread
    reads, and is waited for as long as it may take."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=within_s)
    found: Future[object] = Future()
    threading.Thread(target=_settle, args=(found, connection, url, within_s), daemon=True).start()
    try:
        return found.result(timeout=within_s)
    except TimeoutError:
        _hang_up(connection)
        raise TimeoutError(f"{url} did not send it all within {within_s:.1f} s") from None


def _settle(found: Future[object], connection: http.client.HTTPConnection, url: str, within_s: float) -> None:
    try:
        found.set_result(_document(connection, url, within_s))
    except Exception as error:  # noqa: BLE001 - raised where the document is waited for
        found.set_exception(error)


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End what its reader still waits for; where it has no socket yet, its own limits end it."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _document(connection: http.client.HTTPConnection, url: str, within_s: float) -> object:
    deadline_s = time.monotonic() + within_s
    parts = urlsplit(url)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise ValueError(f"{url} answered {answer.status}")
            return json.loads(_read(answer, url, deadline_s))
    except (http.client.HTTPException, RecursionError) as error:
        raise ValueError(f"{url}: {error!r}") from error
    finally:
        connection.close()


def _read(answer: http.client.HTTPResponse, url: str, deadline_s: float) -> bytes:
    """The body, bounded in size and, however slowly it drips, in time."""
    read = b""
    while part := answer.read1(_CHUNK):
        read += part
        if len(read) > DOCUMENT_BYTES_MAX:
            raise ValueError(f"{url} sends more than {DOCUMENT_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{url} did not send it all in time")
    return read
