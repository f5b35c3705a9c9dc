"""Instants as the whole of tickwork writes them: integer milliseconds inside, UTC ISO-8601 outside.

Occurrences lie on whole seconds. The text form is part of `run_id` and so is frozen: `2026-11-01T07:00:00Z`,
never a fraction, never `+00:00` (a second spelling would be a second identity).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

# Minutes are written with eight digits in keys, which ends in 2160; zone data beyond this is guesswork anyway.
LATEST_INSTANT_MS = 5_680_281_600_000  # 2150-01-01T00:00:00Z

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE = datetime(1970, 1, 1)  # only ever written out, with a Z


def iso(instant_ms: int) -> str:
    """The frozen text form, to the second: 1793516400000 -> '2026-11-01T07:00:00Z'."""
    return f"{(_EPOCH_NAIVE + timedelta(seconds=instant_ms // SECOND_MS)).isoformat()}Z"


def iso_ms(instant_ms: int) -> str:
    """The text form with milliseconds, for what happened (started, ended), not for what is due."""
    return f"{iso(instant_ms)[:-1]}.{instant_ms % SECOND_MS:03d}Z"


def parse_iso(text: str) -> int:
    """The instant of an ISO-8601 text that carries an offset. ValueError when it has none or is not a time,
    OverflowError when its offset takes it out of the years that `iso` can write."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the time has no offset from UTC")
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def second_of(instant_ms: int) -> int:
    """The whole second an instant lies in."""
    return instant_ms // SECOND_MS


def ceil_to_second(instant_ms: int) -> int:
    """The first whole second not before the instant: rounding up never fires early."""
    return -(-instant_ms // SECOND_MS) * SECOND_MS
