"""The creator's rule: whoever writes a ledger item makes sure that no scanner has already passed it.

Before the first write into a slice its cursors must exist; after the write, if the item is near, `closing` is read
consistently: an item written before the announcement is seen by the scanner's read, one written after it is seen
here, and fired by its creator. Protects no-lost-timer and cursor-honest against any clock skew or pause (F6).
The API, a failed attempt's retry, the reconciler and a chain moved without a fence all end with `follow_up`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tickwork.core.dispatch import set_aside, slices
from tickwork.core.dispatch.set_aside import Who
from tickwork.core.dispatch.slices import NEAR_HORIZON_MS, SliceLease, has_tick
from tickwork.core.errors import UnknownCell, Unsent, WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.records import Due
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.dispatch import leasing
from tickwork.flows.dispatch.fired import Fired, Firing
from tickwork.flows.dispatch.firing import fire, read_items
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.ledger import reading
from tickwork.ports import Ports

ROUNDS_MAX = 1_000
"""How far a creator follows a chain that keeps falling behind the cursor. A job of every second with a clock a
quarter of an hour off stays under it; beyond it the reconciler goes on."""


def prepare_slices(ports: Ports, keys: Iterable[LedgerKey]) -> None:
    """Before the put: the cursors of the slices that are about to get items exist, and lie before those items."""
    now_second = second_of(ports.clock.now_ms())
    first: dict[tuple[str, int], int] = {}
    for key in keys:
        place = (key.cell, ports.in_cell(key.cell).layout.slice_of(key.shard))
        first[place] = min(first.get(place, now_second), key.fire_second)
    for (cell, slice_no), second in first.items():
        leasing.ensure_lease(ports.in_cell(cell), slice_no, second)


def follow_up(ports: Ports, keys: Sequence[LedgerKey], by: str = "creator") -> Fired:
    """After the put: fire what a scanner has already passed, and bring a tick for what lies inside the tick horizon.

    Only then may the creator answer. Items that are not pending any more are left alone. Raises Unsent when the
    queue took no message for what the scanner has passed, and the WorldError of a slice whose cursors, or of a shard
    whose items cannot be read, when all others have been seen to: the creator may not answer that all is well.
    """
    behind, busy = _behind_cursor(ports, keys)
    due, unread = _pending_by_shard(ports, behind)
    fired = fire_overdue(ports, due, by)
    if fired.unsent:
        raise Unsent(f"{fired.unsent} of the items are due, and could not be sent")
    if (error := busy or unread) is not None:
        raise error
    return fired


def fire_overdue(ports: Ports, due: Sequence[Due], by: str) -> Fired:
    """Fire pending items that a scanner has passed, and go on with the next items which that writes. A queue that takes
    nothing is tried once, for the chains of its pool; those of other pools go on."""
    total = Fired()
    held: set[Who] = set()
    owed: WorldError | None = None
    for _ in range(ROUNDS_MAX):
        if not due:
            break
        fired = fire(ports, due, Firing(by, held=held))
        total.add(fired)
        held |= fired.left.keys()
        # After a change of the number of shards a chain may come to a slice that nobody has served yet. Its cursors
        # are made to begin before the item that now lies there; else they would begin at somebody's later now.
        prepare_slices(ports, fired.materialised)
        # What comes next of whom is held stays its job's next, and is found as that.
        going_on = [key for key in fired.materialised if set_aside.job(key.job_id) not in held]
        behind, busy = _behind_cursor(ports, going_on)
        due, unread = _pending_by_shard(ports, behind)
        owed = owed or busy or unread
    if owed is not None:
        raise owed
    return total


def read_pending(ports: Ports, keys: Sequence[LedgerKey]) -> list[Due]:
    """The items of these keys that are pending, read consistently. A key that is named twice is read once."""
    items = reading.read_many(ports, TIMERS, [key.as_item() for key in dict.fromkeys(keys)])
    return read_items(ports, (item for item in items if item is not None))


def _pending_by_shard(ports: Ports, keys: Sequence[LedgerKey]) -> tuple[list[Due], WorldError | None]:
    """The pending items of these keys in one read. When that fails, shard by shard, with the error of one that cannot
    be read: it keeps no other shard's items from being fired."""
    try:
        return read_pending(ports, keys), None
    except WorldError as error:
        unread: WorldError | None = error
    by_shard: dict[tuple[str, int], list[LedgerKey]] = defaultdict(list)
    for key in keys:
        by_shard[key.cell, key.shard].append(key)
    found: list[Due] = []
    if len(by_shard) == 1:
        return found, unread
    unread = None
    for group in by_shard.values():
        try:
            found += read_pending(ports, group)
        except WorldError as error:
            unread = error
    return found, unread


def _behind_cursor(ports: Ports, keys: Sequence[LedgerKey]) -> tuple[list[LedgerKey], WorldError | None]:
    """The near items whose window has been announced. For the other near ones, ticks are sent: up to where the ticker
    has announced its own, and in any case for what is due within the minute, which a ticker that is late, or has many
    slices to go through, would reach too late. And the error of a slice whose cursors cannot be read: it keeps no other
    slice's items from their ticks."""
    now_ms = ports.clock.now_ms()  # read after the write: a pause before it changes nothing
    horizon_ms, minute = now_ms + NEAR_HORIZON_MS, second_of(now_ms) + BUCKET_S
    by_slice: dict[tuple[str, int], list[LedgerKey]] = defaultdict(list)
    behind: list[LedgerKey] = []
    wanted: list[tuple[SliceLease, list[Tick]]] = []
    busy: WorldError | None = None
    for key in keys:
        if key.fire_at_ms > horizon_ms:
            continue
        try:
            by_slice[key.cell, ports.in_cell(key.cell).layout.slice_of(key.shard)].append(key)
        except UnknownCell as error:
            busy = error
    for (cell, slice_no), group in by_slice.items():
        try:
            lease = leasing.read_lease(ports.in_cell(cell), slice_no) or SliceLease("")
        except WorldError as error:
            busy = error
            continue
        behind += [key for key in group if key.fire_second <= lease.closing]
        ticking = max(lease.ticking, minute)
        seconds = {key.fire_second for key in group if lease.closing < key.fire_second <= ticking}
        missing = [second for second in sorted(seconds) if not has_tick(lease, second)]
        if missing:
            wanted.append((lease, [Tick(cell, slice_no, second) for second in missing]))
    ticks = [tick for _, some in wanted for tick in some]
    if ticks and send_ticks(ports, ticks) == len(ticks):
        for lease, some in wanted:
            if slices.is_behind(lease, second_of(now_ms)):
                continue  # our clock is late, and so is our tick: who is on time sends his own
            leasing.note_ticks(ports, lease, [tick.second for tick in some])
    return behind, busy
