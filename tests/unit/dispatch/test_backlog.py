"""What of a slice an outage has left behind, when it is extended."""

from __future__ import annotations

from tickwork.core.dispatch import backlog
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, bucket_of

MINUTE_S = 1_793_318_400
"""The beginning of a minute."""


def due_at(second: int, shard: int) -> LedgerKey:
    return LedgerKey("main", shard, second * 1_000, "shop", f"job-{shard}", second * 1_000)


def test_one_that_is_extended_within_the_minute_it_has_come_to_serves_that_minute_from_its_beginning() -> None:
    """The first shards of the minute were served up to second 20, live; what they hold beyond it is new."""
    done = MINUTE_S + 20
    served = due_at(MINUTE_S + 5, 2)
    standing = SliceLease(
        "main#0000",
        closing=done,
        done=done,
        late_from=MINUTE_S - 300,
        late_until=done,
        late_at=backlog.place(served),
    )
    after = backlog.opened(standing, done + 400)
    for shard in range(4):
        key = due_at(done + 10, shard)
        assert backlog.awaits(after, key), f"shard {shard}"
        assert not backlog.has_passed(after, key)


def test_one_that_is_extended_later_goes_on_where_it_was() -> None:
    """Nothing that was served in another minute is read again."""
    done = MINUTE_S + 3 * BUCKET_S
    at = backlog.place(due_at(MINUTE_S + 5, 2))
    standing = SliceLease("main#0000", done=done, late_from=MINUTE_S - 300, late_until=done, late_at=at)
    after = backlog.opened(standing, done + 400)
    assert after.late_at == at
    assert (after.late_from, bucket_of(after.late_until)) == (MINUTE_S - 300, bucket_of(done + 340))
