"""Lanes: what is transactional (P0) goes before what is standard (P1), and bulk (P2) holds up neither.

Owns what they are called, and what the queue of a lane is. A lane of a pool is a pool of its own, `<pool>-p0` and
`<pool>-p2`; P1 is the pool itself, as it always was. So whoever dispatches, sets aside or grants goes by the pool of
the work and need not know of lanes, whatever its version. Refuses to know which cell a lane is placed in.
"""

from __future__ import annotations

P0, P1, P2 = "P0", "P1", "P2"
"""Transactional; standard, which is what says nothing; bulk and backfill."""

LANES = (P0, P1, P2)
"""In the order in which workers take them."""

_ENDINGS = {P0: "-p0", P2: "-p2"}

TURNS = (P0, P0, P0, P0, P1, P0, P0, P0, P0, P2)
"""Which lane a worker asks first, turn by turn: so P1 and P2 never starve, whatever P0 brings. A lane that brings less
than there is room for leaves it to the others, in their order."""

IDLE_TURNS = (P0, P1, P0, P2)
"""Which lane is waited for while none has anything: a message of P0 waits for one poll of another lane at most."""


def pool_of(pool: str, lane: str) -> str:
    """The pool whose queue is a pool's in that lane."""
    return f"{pool}{_ENDINGS.get(lane, '')}"


def pools_of(pool: str) -> tuple[str, ...]:
    """The pool with those that are its lanes' queues, whether or not it has these."""
    return tuple(pool_of(pool, lane) for lane in LANES)


def plain_pool(pool: str, lane: str) -> str:
    """The pool that people name beside the lane: the inverse of `pool_of`."""
    return pool.removesuffix(_ENDINGS.get(lane, ""))


def is_lanes(lane: str) -> bool:
    """Whether a lane has a queue beside the pool's own."""
    return lane in _ENDINGS
