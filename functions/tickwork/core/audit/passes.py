"""What the reconciler's passes remember between two runs: where the walk over the definitions goes on, and which
buckets still hold something that has not ended.

Nothing is written for a run: the day audit leaves one row for a bucket, and only for one that holds something
unended, which is rare. The row is read again at growing distance until the bucket is closed, so that nothing that is
pending or waiting is ever beyond the audit's sight while its record lives (F16). Protects every-end-recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from tickwork.core.instants import DAY_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import BUCKET_S, open_bucket_place
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete, Item, Put

AUDITS = {"audited": 300, "audited_hour": 3_600, "audited_day": 86_400}
"""How long after its second a bucket is read again, by the cursor that says how far that was done. The first is longer
than a window's retries and shorter than anybody's patience; the later ones find what was alive then and died since."""

FIRST_AUDIT, LAST_AUDIT = "audited", "audited_day"

DAY_S = DAY_MS // SECOND_MS
_SOON_S = 5 * 60
_SOON_DOUBLINGS_MAX = 4
"""A bucket that could not be read or sent from: again after 5, 10, 20, 40, and then each 80 minutes."""

_LOOKS_DAYS = (2, 4, 8, 12)
_LOOK_EVERY_DAYS = 1
"""A bucket that holds something unended after the day audit is looked at two, four, eight and twelve days after its
time, and daily from then on: what waits for a worker ends as expired on the thirteenth day."""

EXPIRES_AFTER_MS = 13 * DAY_MS
"""A message lives 14 days in its queue: a run that nobody has started a day before that will not be started any more
unless it is sent again and again; it ends as expired instead (F16)."""

LAPSED_FOR_MS = 2 * MINUTE_MS
"""A running attempt whose lease lapsed this long ago has no message left that would come back by itself."""

RETRY_MISSING_AFTER_MS = 5 * MINUTE_MS
"""A waiting run whose retry was due this long ago has lost it, or it lies before the window."""

NOBODY_CAME = "has started it within 13 days of its time"
"""Ends the reason of a run that has expired. Mostly there was no worker, or none with its handler: it says which."""

_SAME = "a row says only that a bucket is to be read: written twice, it is read twice"


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """A minute of a slice that is to be read again at `look_at_s`. What it holds waits since `since_s`: its own time,
    or when an outage was over. `tries` counts the looks in a row that could not finish."""

    slice: str
    look_at_s: int
    bucket: int
    since_s: int
    tries: int = 0

    @property
    def key(self) -> Item:
        return {"pass": self.slice, "place": open_bucket_place(self.look_at_s, self.bucket)}

    def to_item(self) -> Item:
        return self.key | {name: getattr(self, name) for name in _ROW_FIELDS}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        return cls(str(item["pass"]), *(int(item[name]) for name in _ROW_FIELDS))


_ROW_FIELDS = tuple(field.name for field in fields(OpenBucket) if field.name != "slice")


def again_soon(slice_id: str, bucket: int, now_s: int, row: OpenBucket | None = None) -> OpenBucket:
    """The row of a bucket that could not be read, or from which something could not be sent."""
    tries = row.tries if row else 0
    since_s = row.since_s if row else _since_s(bucket, now_s)
    return OpenBucket(slice_id, now_s + (_SOON_S << min(tries, _SOON_DOUBLINGS_MAX)), bucket, since_s, tries + 1)


def first_look(slice_id: str, bucket: int, now_s: int, deadline_s: int = 0) -> OpenBucket:
    """The row of a bucket that an audit has found to hold something unended: the last one, or the first, when a
    deadline lies ahead there."""
    return next_look(OpenBucket(slice_id, 0, bucket, _since_s(bucket, now_s)), now_s, deadline_s)


def next_look(row: OpenBucket, now_s: int, deadline_s: int = 0) -> OpenBucket:
    """The row of a bucket that still holds something unended: at the next of its looks, or when the first deadline of
    what it holds has passed."""
    age_s = now_s - row.since_s
    later_s = (days * DAY_S for days in _LOOKS_DAYS if days * DAY_S > age_s)
    look_at_s = row.since_s + next(later_s, age_s + _LOOK_EVERY_DAYS * DAY_S)
    return at_deadline(row, min(look_at_s, deadline_s or look_at_s))


def at_deadline(row: OpenBucket, second: int) -> OpenBucket:
    """The row of a bucket that is to be read again at this second, all being well."""
    return replace(row, look_at_s=second, tries=0)


def _since_s(bucket: int, now_s: int) -> int:
    """Since when the runs of a bucket wait for a worker. After an outage they were sent only now."""
    begin_s = bucket * BUCKET_S
    return begin_s if now_s - begin_s <= _LOOKS_DAYS[0] * DAY_S else now_s


def put_row(row: OpenBucket) -> Put:
    return Put(PASSES, row.to_item(), Anyway(_SAME))


def delete_row(row: OpenBucket) -> Delete:
    return Delete(PASSES, row.key, Anyway("its bucket is closed, or has a row of a later time"))


# --- what an item of an audited bucket needs ------------------------------------------------------------------


def is_unended(item: Item) -> bool:
    """Whether an item has not come to its end, or only a newer version can tell."""
    return item.get("status") not in lifecycle.ENDED


def has_lapsed(item: Item, now_ms: int) -> bool:
    """Whether the item's attempt has lost its worker, and its message too."""
    lease_until_ms = item.get("lease_until_ms", 0)
    is_running = item.get("status") == lifecycle.RUNNING and isinstance(lease_until_ms, int)
    return is_running and lease_until_ms + LAPSED_FOR_MS < now_ms


def awaits_retry(item: Item, now_ms: int) -> bool:
    """Whether the item is a run whose retry should long have come."""
    retry_at_ms = item.get("retry_at_ms", 0)
    is_waiting = item.get("status") == lifecycle.WAITING and isinstance(retry_at_ms, int)
    return is_waiting and retry_at_ms + RETRY_MISSING_AFTER_MS < now_ms


def has_expired(run: Run, since_ms: int, now_ms: int) -> bool:
    """Whether a run has waited for its first worker until its message is about to be dropped."""
    waits_since_ms = max(run.key.fire_at_ms, run.released_at_ms, since_ms)
    return run.status == lifecycle.PENDING and waits_since_ms + EXPIRES_AFTER_MS <= now_ms


def why_expired(work: Work | None) -> str:
    """Why it has expired, as far as the ledger knows; None: of a job whose definition cannot be read any more."""
    if work is None or work.url:
        return f"no worker {NOBODY_CAME}"
    return f"no worker of pool {work.pool} that has the handler {work.handler} {NOBODY_CAME}"


# --- the walk over the definitions ----------------------------------------------------------------------------


def walk_key(cell: str) -> Item:
    return {"pass": f"{cell}#definitions", "place": "-"}


def put_place(cell: str, after: Item) -> Put:
    """Remember where the walk over the definitions goes on."""
    return Put(PASSES, walk_key(cell) | {"after": after}, Anyway("a place that is lost costs a repeated look"))


def forget_place(cell: str) -> Delete:
    """The walk has come to its end."""
    return Delete(PASSES, walk_key(cell), Anyway("the next walk begins at the beginning"))
