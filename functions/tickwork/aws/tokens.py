"""Tokens through PyJWT, and an issuer's documents over HTTPS.

Owns the library and the sockets. Refuses to know what claims mean and how long keys are kept. The library and what it
brings take a tenth of a second to import, so they are imported by the first token and not by the first request.
Protects: what is read is the configured issuer's own, complete, small, and over TLS.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
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


def read_document(url: str) -> object:
    """The JSON at a URL. OSError or ValueError, also for an answer that is not 200: redirects are not followed."""
    deadline_s = time.monotonic() + ASKS_WITHIN_S
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=ASKS_WITHIN_S)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        answer = connection.getresponse()
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
            raise TimeoutError(f"{url} did not send it all within {ASKS_WITHIN_S:.0f} s")
    return read
