"""How much of a second a window may dispatch where that is bounded (F10), and the word that others have a backlog.

What is over a bound waits in the rows of its teams (`set_aside`), so that the cursor goes on and nothing is lost or
taken for missed. Refuses to know the store. Protects bounded-lag of what is not bulk: P2 takes a fifth while P0 or P1
have more than they can dispatch; and of bulk itself, for its part is never nothing.
"""

from __future__ import annotations

from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.writes import Absent, Is, Item, Put

BULK_PERCENT = 20
"""Of all that is dispatched, P2 gets at most this while others have a backlog."""

SECONDS_MAX = 2
"""A window may dispatch what the seconds since the one before allow, but never that of more: no burst after a gap."""

PRESSED_S = 30
"""So long others' word that they have a backlog holds. It lapses by itself: nobody has to take it back, and who dies of
the backlog leaves no lasting brake."""

GAP_S_MAX = 60
"""How far ahead it is looked for the second in which a slice may dispatch again: a window comes each minute anyway."""


def allowed(per_s: int, slices: int, slice_no: int, done: int, until: int) -> int:
    """What one slice of a cell may dispatch for the seconds behind its cursor: over all slices and seconds it is just
    so many a second, also when that is less than there are slices."""
    begin = max(done, until - SECONDS_MAX)
    return (until * per_s + slice_no) // slices - (begin * per_s + slice_no) // slices


def next_allowed(per_s: int, slices: int, slice_no: int, until: int) -> int:
    """The next second in which it may dispatch again."""
    ahead = range(until + 1, until + GAP_S_MAX)
    return next((s for s in ahead if allowed(per_s, slices, slice_no, s - 1, s)), until + GAP_S_MAX)


def bulk_per_s(capacity_per_s: int, slices: int, others: int) -> int:
    """What the cell of P2 may dispatch in a second beside so many slices of others: a fifth of what it could, and no
    more than a fifth of what all do. At least one, so that it ends."""
    own = slices * capacity_per_s * BULK_PERCENT // 100
    beside = others * capacity_per_s * BULK_PERCENT // (100 - BULK_PERCENT)
    return max(1, min(own, beside))


def load_key(home: str) -> Item:
    return {"pass": f"{home}#load", "place": "backlog"}


def pressed_until(item: Item | None) -> int:
    """The second until which others are known to have a backlog; 0 where nobody has said so, or says it in words that
    this version cannot read."""
    until_s = (item or {}).get("until_s", 0)
    return until_s if isinstance(until_s, int) else 0


def is_worth_telling(item: Item | None, now_s: int) -> bool:
    """Whether to say it again: in less than half of its time it will have lapsed."""
    return pressed_until(item) < now_s + PRESSED_S // 2


def press(home: str, standing: Item | None, now_s: int) -> Put:
    """Say that there is a backlog. On condition of what was read: many say it at once, and one is enough."""
    unchanged = Absent() if standing is None else Is("until_s", pressed_until(standing))
    return Put(PASSES, load_key(home) | {"until_s": now_s + PRESSED_S}, unchanged)
