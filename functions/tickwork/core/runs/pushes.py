"""The HTTP request of a push and the meaning of its answer: headers, signature, outcome of the attempt.

Owns the table from status codes to outcomes. Makes no request (`aws/push_http.py` does) and reads no clock.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from tickwork.core.instants import SECOND_MS

TIMEOUT_MS = 10_000
"""For the whole exchange, redirects included."""

_RETRIED = frozenset({408, 409, 423, 425, 429})
"""Refusals that may pass; every other 4xx means that the request itself is wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `status` 0: nothing did, and `error_class` says why (Unreachable, TimedOut, AddressRefused)."""

    status: int
    retry_after: str = ""
    error_class: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`trips`: it counts against the target's health."""

    succeeded: bool
    permanent: bool = False
    trips: bool = False
    error: str = ""
    error_class: str = ""
    retry_after_s: int = 0


def judge(answer: Answer, now_ms: int) -> Outcome:
    """What an answer means for the run. 2xx is success and nothing else is."""
    if answer.status == 0:
        is_refused = answer.error_class == "AddressRefused"
        return Outcome(False, is_refused, not is_refused, answer.detail, answer.error_class)
    if 200 <= answer.status < 300:
        return Outcome(True)
    is_down = answer.status >= 500
    return Outcome(
        succeeded=False,
        permanent=not is_down and answer.status not in _RETRIED,
        trips=is_down,
        error=f"HTTP {answer.status}: {answer.detail}"[:200],
        error_class=f"Http{answer.status}",
        retry_after_s=retry_after_s(answer.retry_after, now_ms),
    )


def retry_after_s(text: str, now_ms: int) -> int:
    """`Retry-After` as seconds (RFC 9110: seconds, or a date); 0 when there is none that can be read."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text[:10])
    try:
        at_ms = int(parsedate_to_datetime(text).timestamp() * SECOND_MS)
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(0, -(-(at_ms - now_ms) // SECOND_MS))


def team_secret(master: str, team: str) -> str:
    """The secret that a team's receivers verify with. Derived, so that there is one secret to keep and to rotate."""
    return hmac.new(master.encode(), f"tickwork push v1|{team}".encode(), hashlib.sha256).hexdigest()


def signature(secrets: Sequence[str], at_s: int, run_id: str, body: bytes) -> str:
    """`t=...,v1=...` with one `v1` for each secret in use: while they rotate, a receiver accepts either."""
    signed = f"{at_s}.{run_id}.".encode() + body
    marks = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={at_s}", *(f"v1={mark}" for mark in marks)])
