"""How fast a team creates: what a process lets through unasked, and what it asks of counters that all processes share.

Owns the counting of creates by the second, and its keys. Refuses to know the store and the clock. Protects: a team far
below its quota pays next to nothing for being counted, one that is at it is held to it whatever number of processes
serve it, and no counter is written more often than an item takes (decision 141).

Calm, a process lets a few creates a second through on its own word, and says after some dozens how many they were. One
that sees more in a second borrows a rate for the window, of which there is less than the quota for all; or takes from
the second's own counter. Once that runs low, the team is held strictly for a while: nothing more is lent, nothing goes
through unasked but what is lent, and the rest of the quota is taken from the second's counter, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import AnyOf, Below, Condition, Item, Missing, Update, all_of

WINDOW_S = 20
"""What is lent is lent for the rest of a window: long enough that a process which borrows makes a hundred creates of
it, short enough that what a process that has died has borrowed is missed for seconds only."""
STRICT_S = 20
"""How long a process goes on asking for each create after it has seen the second's counter run low."""
TELLS_AFTER = 150
"""Creates that a process makes before it tells of them: a unit for so many is 0.7% of a create."""
FREE_PARTS, FREE_MIN = 64, 7
"""A process lets a part of the quota through in a second unasked, and some creates at the least: what comes to it by
chance alone when many processes share a team's creates evenly. Never more than half of the quota."""
BUSY_S = 3
"""Seconds of this window and the last in which it had more than that, before a process borrows."""
LENT_PERCENT = 70
"""Of the quota, what may be lent. The rest is there for who comes when all is lent."""
LOW_PERCENT = 75
"""While more than this of a second's counter is taken, a team that is held strictly goes on to be; and it begins to be
when processes tell of so much of the quota that they let through unasked."""
LUMPS = 4
"""What processes tell comes in lumps, so many of which make no rate."""
TAKEN_PARTS = 150
"""Of a team that is held strictly, so many parts of the quota are taken one by one: the second's counter is written as
often, and once more by each process that finds it spent."""
KEPT_S = 3_600
"""How long the counters of a window, and of a second, stay where they are: nobody looks at one that has passed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a process knows of how fast a team creates."""

    window: int = -1
    rate: int = 0
    """What it has borrowed: so many creates in each second of the window."""
    lent: int = 0
    """What all have borrowed, when it asked last."""
    has_looked: bool = False
    """At the window's counter: it knows what is lent."""
    is_closed: bool = False
    """Nothing more is lent in this window, so `lent` stays as it is."""
    second: int = -1
    made: int = 0
    """In this second, without asking the second's counter."""
    told: int = 0
    """Of them, what the second's counter has been told."""
    tokens: int = 0
    """Taken from the second's counter, and not used."""
    passed: int = 0
    """In this second, in all."""
    taken: int = 0
    """Of the second's counter, by all, when it was asked last."""
    is_spent: bool = False
    """There is nothing left in the second's counter."""
    untold: int = 0
    """Since it told a window's counter, and not of what it has borrowed."""
    busiest: int = 0
    busiest_before: int = 0
    """Most creates in a second of this window, and of the one before."""
    busy_s: int = 0
    busy_before_s: int = 0
    """Seconds of them with more creates than go through unasked."""
    strict_until_s: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """So many of the creates may go on. Fewer than were asked for: the quota of this second is used up."""

    pace: Pace
    count: int


@dataclass(frozen=True, slots=True)
class Lend:
    """Tell the window's counter what was made, and borrow `extra` of its rate (0: nothing)."""

    extra: int
    made: int


@dataclass(frozen=True, slots=True)
class Look:
    """Read the window's counter: what is lent is not to be taken of a second."""


@dataclass(frozen=True, slots=True)
class Close:
    """Tell the window's counter what was made, and let it lend nothing more."""

    made: int


@dataclass(frozen=True, slots=True)
class Take:
    """Tell the second's counter what was made in it unasked, and take tokens of it."""

    tokens: int
    made: int


type Step = Passed | Look | Lend | Close | Take


def first(now_ms: int) -> Pace:
    """What a process knows that has created nothing yet. As if it had created some, or owed some, by when it begins:
    processes that begin together are not to tell together, which would look like a flood."""
    return Pace(untold=now_ms % TELLS_AFTER - TELLS_AFTER // 2)


def free(quota: int) -> int:
    """How many creates a second a calm process lets through unasked."""
    return min(max(FREE_MIN, quota // FREE_PARTS), quota // 2)


def lendable(quota: int) -> int:
    return quota * LENT_PERCENT // 100


def at(pace: Pace, quota: int, now_s: int) -> Pace:
    """What is known of a pace in this second. A clock that goes back begins anew, too."""
    window = now_s // WINDOW_S
    if pace.second != now_s:
        pace = replace(
            pace,
            second=now_s,
            made=0,
            told=0,
            tokens=0,
            passed=0,
            taken=0,
            is_spent=False,
            busiest=max(pace.busiest, pace.passed),
            busy_s=pace.busy_s + (pace.passed > free(quota)),
        )
    if pace.window != window:
        busiest, busy_s = (pace.busiest, pace.busy_s) if pace.window == window - 1 else (0, 0)
        pace = Pace(
            window,
            second=now_s,
            untold=pace.untold,
            busiest_before=busiest,
            busy_before_s=busy_s,
            strict_until_s=pace.strict_until_s,
        )
    return pace


def next_step(pace: Pace, quota: int, count: int, now_s: int) -> Step:
    """What is to be done for `count` creates at once: let them through, or ask a counter first."""
    pace = at(pace, quota, now_s)
    is_strict = pace.is_closed or now_s < pace.strict_until_s
    if is_strict and not pace.is_closed:
        return Close(max(0, pace.untold))
    unasked = _unasked(pace, quota, is_strict=is_strict)
    if not is_strict and not pace.rate and pace.untold + count >= TELLS_AFTER:
        return Lend(0, pace.untold + count)
    if count <= unasked or pace.is_spent:
        return _passed(pace, min(count, unasked), is_strict=is_strict)
    extra = 0 if is_strict else _wanted(pace, quota, count)
    if extra:
        return Lend(extra, max(0, pace.untold))
    if not pace.has_looked:
        return Look()
    made = max(0, pace.made - pace.told - pace.rate)
    return Take(max(count - unasked, _chunk(pace, quota, is_strict=is_strict)), made)


def _chunk(pace: Pace, quota: int, *, is_strict: bool) -> int:
    """How many tokens to take at once: of a calm team so many that few takings do for the second."""
    if is_strict:
        return max(1, quota // TAKEN_PARTS)
    return max(1, free(quota) // 2, pace.passed // 2, pace.busiest_before - pace.passed)


def _unasked(pace: Pace, quota: int, *, is_strict: bool) -> int:
    allowed = pace.rate if is_strict else max(pace.rate, free(quota))
    return max(0, allowed - pace.made) + pace.tokens


def _passed(pace: Pace, count: int, *, is_strict: bool) -> Passed:
    used, untold = min(count, pace.tokens), 0 if is_strict else pace.untold + (0 if pace.rate else count)
    passed, made = pace.passed + count, pace.made + count - used
    return Passed(replace(pace, tokens=pace.tokens - used, made=made, passed=passed, untold=untold), count)


def _wanted(pace: Pace, quota: int, count: int) -> int:
    """How much more of a rate to borrow: what this second needs and some, or what the last window needed; what there
    is, if that is enough for now; 0: it is of no use to ask."""
    if pace.busy_s + pace.busy_before_s < BUSY_S:
        return 0
    need = pace.made + count
    room = lendable(quota) - pace.lent
    wanted = max(need + max(2, need // 2), pace.busiest_before) - pace.rate
    if wanted <= room:
        return wanted
    return room if need - pace.rate <= room else 0


# --- the counters -----------------------------------------------------------------------------------------------


def counter_key(team: str, place: str) -> Item:
    """No resource of a team can be called so."""
    return {"resource": f"{team}#@creates", "slot": place}


def window_place(window: int) -> str:
    return f"window#{window:010d}"


def second_place(second: int) -> str:
    return f"second#{second:010d}"


def asking(team: str, quota: int, pace: Pace, step: Lend | Close | Take, now_s: int) -> Update:
    """The write of a step. A counter begins with the first."""
    kept = {"expires_at_s": now_s + KEPT_S}
    if isinstance(step, Take):
        is_left: Condition = AnyOf((Missing("taken"), Below("taken", _limit(pace, quota))))
        key, add = second_key(team, now_s), {"taken": step.tokens + step.made}
        return Update(RESOURCES, key, is_left, set=kept, add=add)
    key, is_open = window_key(team, now_s), Missing("closed")
    if isinstance(step, Close):
        return Update(RESOURCES, key, is_open, set=kept | {"closed": True}, add={"made": step.made})
    has_room = AnyOf((Missing("lent"), Below("lent", lendable(quota) - step.extra + 1)))
    condition = all_of(is_open, has_room) if step.extra else is_open
    return Update(RESOURCES, key, condition, set=kept, add={"made": step.made, "lent": step.extra})


def window_key(team: str, now_s: int) -> Item:
    return counter_key(team, window_place(now_s // WINDOW_S))


def second_key(team: str, second: int) -> Item:
    return counter_key(team, second_place(second))


def _limit(pace: Pace, quota: int) -> int:
    """What of a second is not lent."""
    return quota - pace.lent


def learned(pace: Pace, quota: int, step: Look | Lend | Close | Take, item: Item, now_s: int, *, granted: bool) -> Pace:
    """What a process knows by the counter as it stands after a step, which was granted or not."""
    pace = at(pace, quota, now_s)
    if isinstance(step, Take):
        return _taken(pace, quota, step, whole(item.get("taken", 0)), granted=granted)
    is_closed = bool(item.get("closed"))
    pace = replace(pace, lent=whole(item.get("lent", 0)), has_looked=True, is_closed=is_closed)
    if isinstance(step, Look | Close) or not granted:
        return pace
    made = whole(item.get("made", 0)) - LUMPS * TELLS_AFTER
    if made * 100 > LOW_PERCENT * quota * (now_s % WINDOW_S + 1):
        pace = replace(pace, strict_until_s=now_s + STRICT_S)
    return replace(pace, rate=pace.rate + step.extra, untold=pace.untold - step.made)


def _taken(pace: Pace, quota: int, step: Take, taken: int, *, granted: bool) -> Pace:
    limit = _limit(pace, quota)
    if granted:
        got = max(0, min(step.tokens, limit - (taken - step.tokens)))
        pace = replace(pace, tokens=pace.tokens + got, told=pace.told + step.made)
    is_spent, is_low = taken >= limit, taken * 100 > limit * LOW_PERCENT
    if is_spent or (is_low and pace.is_closed):
        pace = replace(pace, strict_until_s=pace.second + STRICT_S)
    return replace(pace, taken=taken, is_spent=is_spent)


def used(pace: Pace, quota: int) -> int:
    """Of the quota, what is known to be used in this second. Of a calm team, whose processes may have borrowed more
    than they use, nothing."""
    return min(quota, pace.lent + pace.taken) if pace.is_closed or pace.is_spent else 0
