"""Every error tickwork raises, in three families under one base.

- `CallerError`: the caller can mend it. Carries an HTTP status, the field at fault and a remedy; the API
  turns it into an RFC 9457 problem document, the CLI into a line on stderr and exit code 2.
- `WorldError`: the expected world (throttles, lost replies, contention). Flows must handle these.
- `InvariantViolated`: ours. Never caught; it must reach the logs and the alarm.

Expected *outcomes* (a refused condition, a lease held by another) are return values, not errors.
"""

from __future__ import annotations

import traceback
from typing import Self


class TickworkError(Exception):
    """The base of every tickwork error."""


class CallerError(TickworkError):
    """The request cannot be carried out as it stands.

    `field` names the part of the request at fault (dotted path, or None when it is the whole), `detail` says
    what is wrong with it, `remedy` says what to change.
    """

    status = 400
    title = "The request is not valid"
    slug = "invalid-request"

    def __init__(self, detail: str, *, field: str | None = None, remedy: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.remedy = remedy


class InvalidField(CallerError):
    """A field of the request is missing, of the wrong type, unknown, or out of its range."""

    status = 422
    title = "A field is not valid"
    slug = "invalid-field"


class BadSchedule(InvalidField):
    """A schedule that cannot be read, or that can never be due."""

    title = "The schedule is not valid"
    slug = "bad-schedule"


class UnknownTeam(InvalidField):
    """The team is not registered here, and teams have to be."""

    title = "The team is not registered"
    slug = "unknown-team"


class InUse(CallerError):
    """It cannot be deleted: something that is alive needs it."""

    status = 409
    title = "It is in use"
    slug = "in-use"


class NotFound(CallerError):
    """No such job, timer or run (or it belongs to another team)."""

    status = 404
    title = "There is no such thing"
    slug = "not-found"


class AlreadyExists(CallerError):
    """The name or client key is taken by something with other content."""

    status = 409
    title = "It exists already, with other content"
    slug = "already-exists"


class VersionConflict(CallerError):
    """It was changed since the caller read it."""

    status = 412
    title = "It was changed meanwhile"
    slug = "version-conflict"


def check_replaced(what: str, standing: int | None, version: int | None) -> None:
    """Who replaces something as a whole names the version that he has read, and who makes it names none. NotFound,
    AlreadyExists or VersionConflict when that is not how it stands (`standing` None: it is not there)."""
    if standing is None and version is not None:
        raise NotFound(f"there is no {what}", field="version", remedy="create it without a version")
    if standing is not None and version is None:
        raise AlreadyExists(
            f"{what} exists with other content (version {standing})",
            field="version",
            remedy="send the version you have read, to replace it",
        )
    if standing != version:
        raise VersionConflict(
            f"{what} is at version {standing}",
            field="version",
            remedy="read it again, and repeat your change on that version",
        )


class Held(CallerError):
    """Something keeps a run from being made now: another run holds its job, or a calendar excludes the time."""

    status = 409
    title = "Something holds it up"
    slug = "held"


class TooLate(CallerError):
    """The run has started or ended; it cannot be changed any more."""

    status = 409
    title = "It is too late for that"
    slug = "too-late"


class PayloadTooLarge(CallerError):
    """The payload is over the limit."""

    status = 413
    title = "The payload is too large"
    slug = "payload-too-large"


class Unauthenticated(CallerError):
    """Nothing in the request proves who calls."""

    status = 401
    title = "Who calls is not known"
    slug = "no-credential"


class MalformedKey(Unauthenticated):
    """What was sent as an API key is none: a part of it is missing or changed."""

    title = "This is no API key"
    slug = "malformed-key"


class UnknownKey(Unauthenticated):
    """There is no such key, or it ended long ago."""

    title = "There is no such API key"
    slug = "unknown-key"


class ExpiredKey(Unauthenticated):
    """The key was valid once, and its time is over."""

    title = "The API key has expired"
    slug = "expired-key"


class RevokedKey(Unauthenticated):
    """Somebody has revoked the key."""

    title = "The API key was revoked"
    slug = "revoked-key"


class BadToken(Unauthenticated):
    """What was sent is no token that is taken here: another issuer's, for somebody else, forged, or broken."""

    title = "This token is not taken"
    slug = "bad-token"


class ExpiredToken(Unauthenticated):
    """The token was valid once, and its time is over."""

    title = "The token has expired"
    slug = "expired-token"


class Forbidden(CallerError):
    """The caller is known, and its role does not go so far."""

    status = 403
    title = "The caller's role does not allow it"
    slug = "forbidden"


class TooMany(CallerError):
    """The team has as many of these as it may have."""

    status = 409
    title = "There are as many as there may be"
    slug = "too-many"


class QuotaExceeded(CallerError):
    """The team uses as much as its quota allows: `limit` says of what, `value` how much that is."""

    status = 429
    title = "The team's quota is used up"
    slug = "quota-exceeded"

    def __init__(self, team: str, limit: str, value: int, *, retry_after_s: int, field: str = "team") -> None:
        super().__init__(
            f"team {team} is at its quota {limit}={value}",
            field=field,
            remedy=f"repeat it in {retry_after_s} s, use less, or have the platform's team raise the quota",
        )
        self.team = team
        self.limit = limit
        self.value = value
        self.retry_after_s = retry_after_s

    def again(self) -> Self:
        """The same refusal of another entry of a batch."""
        return type(self)(self.team, self.limit, self.value, retry_after_s=self.retry_after_s)


class WorldError(TickworkError):
    """The world is as it sometimes is: try again, or find out what happened."""


class Throttled(WorldError):
    """The service asked us to slow down; nothing was written."""


class Conflict(WorldError):
    """Another transaction was under way on the same item; nothing was written."""


class OutcomeUnknown(WorldError):
    """The call may or may not have taken effect: its reply was lost."""


class UnknownCell(WorldError):
    """Something lies in a cell that this process is not deployed with: one that is, or will be, can see to it."""


class IssuerAway(WorldError):
    """The issuer of tokens could not be asked for its keys, and none of them are known."""


class Unsent(WorldError):
    """What was asked for is written, but its message could not be sent: repeat the call, it is safe to."""


class InvariantViolated(TickworkError):
    """The service broke a promise of its own. Never caught."""


# --- what a log says of an error --------------------------------------------------------------------------------

CAUSES_MAX = 10
"""Of an error: each may have one of its own."""


def told_error(error: BaseException) -> str:
    """What a log says of an error that nobody expected. The text of one that is neither ours nor a service's may quote
    whatever was being worked on, a payload too: of such a one its kind alone is told, and its way by `told_way`."""
    has_said_so = isinstance(error, TickworkError | OSError) or isinstance(getattr(error, "response", None), dict)
    return repr(error) if has_said_so else type(error).__name__


def told_way(error: BaseException) -> str:
    """The lines of code that an error came by, and its causes, without their texts."""
    told: list[str] = []
    one: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if one is None:
            break
        told.append("".join([*traceback.format_tb(one.__traceback__), told_error(one)]))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\n\nafter ".join(told)
