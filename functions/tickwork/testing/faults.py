"""Which faults a simulated history has: each seed draws which classes of faults there are, and how often each strikes.

If every class were always on, the most frequent one would hide the others. `CLASSES` lists them, each with the range
that its rate is drawn from where it is on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

CLASSES: dict[str, tuple[float, float]] = {
    # at any port call
    "crash_before": (0.001, 0.01),
    "crash_after": (0.001, 0.01),
    "pause_before": (0.002, 0.02),
    "pause_after": (0.002, 0.02),
    "throttle": (0.005, 0.05),
    # at a commit
    "conflict": (0.01, 0.1),
    "unknown_lost": (0.005, 0.05),
    "unknown_done": (0.005, 0.05),
    "unknown_late": (0.005, 0.03),
    # at a read that is not consistent, or that comes in pages
    "stale_scan": (0.2, 0.8),
    "short_page": (0.1, 0.8),
    # at a send, per message
    "send_failed": (0.02, 0.3),
    "send_failed_but_sent": (0.01, 0.1),
    "send_refused": (0.005, 0.03),
    "tick_lost": (0.05, 0.4),
    "tick_doubled": (0.05, 0.3),
    "tick_late": (0.05, 0.3),
    "message_lost": (0.01, 0.1),
    "message_doubled": (0.05, 0.4),
    "message_late": (0.05, 0.3),
    # of a whole history
    "skew": (1.0, 1.0),
    "freeze": (0.3, 1.0),
    "scanner_outage": (1.0, 1.0),
    "worker_outage": (1.0, 1.0),
    "ticker_loose": (0.1, 0.5),
    "slow_worker": (0.1, 0.5),
    "faulty_worker": (0.05, 0.3),
    "deaf_worker": (0.1, 0.5),
    "small_budget": (0.1, 0.6),
    "poison": (1.0, 1.0),
    "garbled_schedule": (1.0, 1.0),
    "queue_outage": (1.0, 1.0),
}
CLASSES_APART: dict[str, tuple[float, float]] = {
    # at a read that is not consistent, or of many items
    "stale_index": (0.2, 0.9),
    "split_read": (0.1, 0.6),
    # of a whole history
    "clock_jump": (1.0, 1.0),
    "short_retention": (1.0, 1.0),
    "item_deleted": (1.0, 1.0),
    "queue_forgets": (1.0, 1.0),
    "bad_messages": (1.0, 1.0),
    "api_outage": (1.0, 1.0),
}
"""Classes that are drawn apart from the others: a seed in which none of them is on has the history that it had before
there were any."""
CLASSES_ALONE: dict[str, tuple[float, float]] = {
    "sigterm": (0.3, 1.0),
    "hot_spot": (0.1, 0.7),
    "slow_answer": (0.05, 0.4),
    "odd_answer": (0.02, 0.2),
    "late_call": (0.05, 0.3),
}
"""Classes that are drawn each by itself, from the seed: whether one is on changes no other draw."""
CALL_FAULTS = ("crash_before", "crash_after", "pause_before", "pause_after", "throttle")
COMMIT_FAULTS = ("conflict", "unknown_lost", "unknown_done", "unknown_late")

SPOTS: tuple[tuple[str, str, str], ...] = (
    *(("get", table, "throttle") for table in ("timers", "jobs", "leases", "calendars", "resources")),
    *(("get_many", table, "throttle") for table in ("timers", "timers", "jobs", "leases", "calendars")),
    *(("query", table, "throttle") for table in ("timers", "timers", "resources", "passes", "set_aside")),
    *(("commit", table, "throttle") for table in ("timers", "jobs", "leases", "passes")),
    *(("commit", table, "unknown_done") for table in ("timers", "timers", "jobs", "jobs", "leases", "leases")),
    *(("commit", table, "conflict") for table in ("timers", "jobs", "leases")),
    *(("commit", table, "crash_after") for table in ("timers", "jobs")),
    *(("commit", table, "pause_after") for table in ("timers", "jobs", "leases", "leases")),
)
"""Where a hot spot may lie: one sort of call, to one table, that goes wrong in one way, far more often than calls
do otherwise. What has to be right after just that call is met by few histories else."""

CALL, COMMIT, RARE_COMMIT = "call", "commit", "rare_commit"
RARE_TIMES = 10
RARE_SHARE_MAX = 0.5
"""At a commit that few histories have, faults strike so many times as often, up to half the time: what goes wrong there
is otherwise met by one seed in thousands."""

type Table = tuple[float, tuple[tuple[float, str], ...]]
"""The sum of the rates, and the classes with their cumulated rates."""

_APART_SHARES = (0.0, 0.0, 0.15, 0.35)
_ALONE_SHARE = 0.3
_QUIET_SEEDS = 0.08
"""The share of seeds without any fault: there the lag itself is checked (bounded-lag)."""
_PAUSES_MS = ((200, 3_000), (3_000, 9_000), (11_000, 45_000), (60_000, 700_000))
_JUMPS_MS = (2_000, 30_000, 120_000, 300_000)
_SKEW_MAX_MS = (500, 3_000, 20_000, 100_000)


@dataclass(slots=True)
class Faults:
    """The rates of one seed. `off` ends the safety phase: from then on nothing is injected."""

    rates: dict[str, float]
    skew_max_ms: int = 0
    jump_ms: int = 0
    """By how much a host's clock jumps, forward or back, and later back again. `skew_max_ms` has it in it."""
    spot: tuple[str, str, str] = ("", "", "")
    """Of the class `hot_spot`: which call, to which table, goes wrong how."""
    off: bool = False
    tables: dict[str, Table] = field(default_factory=dict)
    """By what a call is."""

    def __post_init__(self) -> None:
        self._set_tables()

    def _set_tables(self) -> None:
        total, steps = at_commits = self._table(CALL_FAULTS + COMMIT_FAULTS)
        times = min(RARE_TIMES, RARE_SHARE_MAX / total) if total else 1.0
        at_rare = total * times, tuple((bound * times, name) for bound, name in steps)
        self.tables = {CALL: self._table(CALL_FAULTS), COMMIT: at_commits, RARE_COMMIT: at_rare}

    def _table(self, names: tuple[str, ...]) -> Table:
        total, steps = 0.0, []
        for name in names:
            if rate := self.rates.get(name, 0.0):
                total += rate
                steps.append((total, name))
        return total, tuple(steps)

    def stop(self) -> None:
        """Nothing is injected from now on; clocks stay as skewed as they are."""
        self.off = True
        self.rates = {}
        self._set_tables()

    def strikes(self, rng: Random, name: str) -> bool:
        """Whether a class strikes at this opportunity."""
        rate = self.rates.get(name)
        return rate is not None and rng.random() < rate

    def draw(self, rng: Random, kind: str, where: tuple[str, str] | None = None) -> str | None:
        """The fault of one port call, mostly None: one draw for all classes, so that a call costs one. `where`: which
        call, to which table."""
        if where is not None and where == self.spot[:2] and self.strikes(rng, "hot_spot"):
            return self.spot[2]
        total, steps = self.tables[kind]
        if not total:
            return None
        drawn = rng.random()
        if drawn >= total:
            return None
        return next(name for bound, name in steps if drawn < bound)


def draw_faults(rng: Random) -> Faults:
    """The swarm of a seed."""
    if rng.random() < _QUIET_SEEDS:
        return Faults({})
    share = rng.choice((0.15, 0.35, 0.6))
    rates = {name: rng.uniform(low, high) for name, (low, high) in CLASSES.items() if rng.random() < share}
    skew_max_ms = rng.choice(_SKEW_MAX_MS) if "skew" in rates else 0
    return Faults(rates, skew_max_ms)


def draw_apart(rng: Random, faults: Faults) -> Faults:
    """The swarm with the classes that are drawn apart; a seed without faults stays one."""
    if not faults.rates:
        return faults
    share = rng.choice(_APART_SHARES)
    apart = {name: rng.uniform(low, high) for name, (low, high) in CLASSES_APART.items() if rng.random() < share}
    jump_ms = rng.choice(_JUMPS_MS) if "clock_jump" in apart else 0
    return Faults(faults.rates | apart, faults.skew_max_ms + jump_ms, jump_ms)


def draw_alone(seed: int, faults: Faults) -> Faults:
    """The swarm with the classes that are drawn alone; a seed without faults stays one."""
    if not faults.rates:
        return faults
    alone: dict[str, float] = {}
    for name, (low, high) in CLASSES_ALONE.items():
        rng = Random(f"{name} {seed}")
        if rng.random() < _ALONE_SHARE:
            alone[name] = rng.uniform(low, high)
    spot = Random(f"spot {seed}").choice(SPOTS) if "hot_spot" in alone else ("", "", "")
    return Faults(faults.rates | alone, faults.skew_max_ms, faults.jump_ms, spot)


def pause_ms(rng: Random) -> int:
    """A pause: from a hiccup to far longer than any lease."""
    low, high = rng.choice(_PAUSES_MS)
    return rng.randint(low, high)
