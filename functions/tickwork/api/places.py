"""Where in a request something stands: the refs a client hands back, and the names of fields inside fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.ledger.keys import LedgerKey, parse_ref


def key_of(ref: str, field: str) -> LedgerKey:
    try:
        return parse_ref(ref)
    except ValueError:
        raise InvalidField(
            "this is not a run's ref", field=field, remedy="hand back the `ref` of the message"
        ) from None


@contextmanager
def fields_under(prefix: str, kind: type[CallerError] = CallerError) -> Iterator[None]:
    """Name the fields of errors by where the client wrote them: `schedule.cron.hour`, `timers.3.at`."""
    try:
        yield
    except kind as error:
        error.field = prefix if error.field in (None, prefix) else f"{prefix}.{error.field}"
        raise
