"""Holding teams to their quotas when they create: how fast, and how much they hold.

A team without a quota costs nothing but the look at what the process remembers of it. Protects: what is refused was
not begun, and a refusal is remembered for its second; a counter that cannot be read or written keeps nobody from
creating, for a missed fire is worse than an exceeded quota (decisions 141, 142).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.access import holdings, pacing, teams
from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.holdings import Held, Plan, Uncounted
from tickwork.core.access.pacing import Close, Lend, Look, Pace, Passed, Take
from tickwork.core.access.teams import Quotas, Team
from tickwork.core.errors import QuotaExceeded, WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run, Stands
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Committed, Item, Update
from tickwork.flows.access import registry
from tickwork.ports import Ports

ROUNDS_MAX = 8
"""Steps of one call at the counters of its second: telling, closing, taking, and a window or a second that ends
between. Beyond it the call goes on uncounted."""
PLANS_MAX = 3
"""A chunk competes with others for what room is left; each time it is planned anew for less."""
CREATES_AGAIN_S, HELD_AGAIN_S = 1, 60
"""When it is worth to try again: in the next second; when timers may have fired, and the audit seen them."""
NEAR_PERCENT = 80
"""From here on the owner hears of it."""


@dataclass(frozen=True, slots=True)
class Near:
    """A quota of which most is used."""

    limit: str
    used: int
    value: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """Of a team's new timers the first `count` may be created. `refusal`: what keeps the others out."""

    count: int
    stands: tuple[Stands | None, ...] = ()
    refusal: QuotaExceeded | None = None
    near: tuple[Near, ...] = ()


def quotas_of(ports: Ports, team: str) -> Quotas:
    """What a team may use, by what its process knows of it. A team that cannot be read, or is none, has no bounds."""
    if team == PLATFORM_TEAM:
        return Quotas()
    try:
        (item,) = registry.read(ports, [teams.team_key(team)])
        return Quotas() if item is None or not item.get("quotas") else Team.from_item(item).quotas
    except (WorldError, Unreadable) as error:
        not_counted(ports, team, error)
        return Quotas()


def admit_timers(ports: Ports, team: str, sizes: Sequence[tuple[int, int]]) -> Admitted:
    """Whether a team may create timers of (payload bytes, fire time), in this order."""
    quotas = quotas_of(ports, team)
    near: list[Near] = []
    refusal: QuotaExceeded | None = None
    if quotas.creates_per_s:
        passed = _paced(ports, team, quotas.creates_per_s, len(sizes), near)
        if passed < len(sizes):
            refusal = QuotaExceeded(team, "creates_per_s", quotas.creates_per_s, retry_after_s=CREATES_AGAIN_S)
        sizes = sizes[:passed]
    stands: tuple[Stands | None, ...] = (None,) * len(sizes)
    if holdings.are_set(quotas) and sizes:
        plan = _held(ports, team, quotas, sizes, near)
        stands = plan.stands
        if plan.full:
            value = int(getattr(quotas, plan.full))
            refusal = QuotaExceeded(team, plan.full, value, retry_after_s=HELD_AGAIN_S)
    return Admitted(len(stands), stands, refusal, tuple(near))


def admit_creates(ports: Ports, team: str, count: int = 1) -> tuple[Near, ...]:
    """Whether a team may create something else now. QuotaExceeded when not."""
    quota = quotas_of(ports, team).creates_per_s
    near: list[Near] = []
    if quota and _paced(ports, team, quota, count, near) < count:
        raise QuotaExceeded(team, "creates_per_s", quota, retry_after_s=CREATES_AGAIN_S)
    return tuple(near)


# --- how fast ---------------------------------------------------------------------------------------------------


def _paced(ports: Ports, team: str, quota: int, count: int, near: list[Near]) -> int:
    """How many of so many creates may go on now."""
    paces = _room_for(ports.quota_counts.paces, team)
    for _ in range(ROUNDS_MAX):
        now_ms = ports.clock.now_ms()
        now_s = second_of(now_ms)
        step = pacing.next_step(paces.setdefault(team, pacing.first(now_ms)), quota, count, now_s)
        if isinstance(step, Passed):
            paces[team] = step.pace
            if is_near(used := pacing.used(step.pace, quota), quota):
                near.append(Near("creates_per_s", used, quota))
            return step.count
        try:
            _ask(ports, team, quota, step, now_s)
        except (WorldError, ValueError) as error:
            not_counted(ports, team, error)
            return count
    not_counted(ports, team, None)
    return count


def _ask(ports: Ports, team: str, quota: int, step: Look | Lend | Close | Take, now_s: int) -> None:
    """Ask a counter once. It is not worth patience: a creator waits for it."""
    paces, granted = ports.quota_counts.paces, False
    item: Item | None = None
    if isinstance(step, Look | Close):
        item = ports.store.get(RESOURCES, pacing.window_key(team, now_s))
    # Mostly another process was first to close it: a read tells that as well.
    if not isinstance(step, Look) and not (item or {}).get("closed"):
        result = ports.store.commit([pacing.asking(team, quota, paces.get(team, Pace()), step, now_s)])
        granted = isinstance(result, Committed)
        item = result.item if isinstance(result, Committed) else result.only
    # Others may have gone on while we asked: what was learned goes into what is known by now.
    paces[team] = pacing.learned(paces.get(team, Pace()), quota, step, item or {}, now_s, granted=granted)


# --- how much ---------------------------------------------------------------------------------------------------


def _held(ports: Ports, team: str, quotas: Quotas, sizes: Sequence[tuple[int, int]], near: list[Near]) -> Plan:
    """What of these timers may be created, and is counted."""
    counts, now_ms = ports.quota_counts, ports.clock.now_ms()
    uncounted = _room_for(counts.uncounted, team)
    if full := next((limit for limit in _LIMITS if counts.full.get((team, limit)) == second_of(now_ms)), ""):
        return Plan((), uncounted.get(team, Uncounted()), full)
    try:
        known, is_fresh = _known(ports, team), False
        for _ in range(PLANS_MAX):
            before = uncounted.get(team, Uncounted())
            plan = holdings.plan(quotas, known, before, sizes, now_ms)
            if plan.full and not is_fresh:  # others may have given back since: nobody is refused by what was
                known, is_fresh = _known(ports, team, anew=True), True
                continue
            counting = holdings.counting(team, quotas, plan.stands)
            if counting is not None and (refusing := _count(ports, team, counting)) is not None:
                known, is_fresh = holdings.held(refusing), True
                continue
            uncounted[team] = plan.uncounted
            near += _near(quotas, _known(ports, team))
            if plan.full:
                _room_for(counts.full, (team, plan.full))[team, plan.full] = second_of(now_ms)
            return plan
        error: WorldError | None = None
    except WorldError as caught:
        error = caught
    not_counted(ports, team, error)
    return Plan((None,) * len(sizes), uncounted.get(team, Uncounted()))


_LIMITS = ("pending_timers", "payload_bytes")


def _known(ports: Ports, team: str, *, anew: bool = False) -> Held:
    (item,) = registry.read(ports, [holdings.used_key(team)], anew=anew)
    return holdings.held(item)


def _count(ports: Ports, team: str, counting: Update) -> Item | None:
    """Count a chunk; the counter as it stands, where there is no room for it."""
    result = ports.store.commit([counting])
    item = result.item if isinstance(result, Committed) else result.only
    registry.remember(ports, holdings.used_key(team), item)
    return None if isinstance(result, Committed) else item or {}


def _near(quotas: Quotas, known: Held) -> list[Near]:
    used = {"pending_timers": known.timers, "payload_bytes": known.payload_bytes}
    bounds = ((limit, used[limit], int(getattr(quotas, limit))) for limit in _LIMITS)
    return [Near(*one) for one in bounds if one[2] and is_near(one[1], one[2])]


def is_near(used: int, value: int) -> bool:
    return used * 100 >= value * NEAR_PERCENT


def take_back(ports: Ports, team: str, stands: Sequence[Stands | None]) -> None:
    """What was counted and is not created after all, as far as that can be written: the week's end does it else."""
    if (write := holdings.taking_back(team, stands)) is None:
        return
    try:
        result = ports.store.commit([write])
        if isinstance(result, Committed):
            registry.remember(ports, holdings.used_key(team), result.item)
    except WorldError as error:
        not_counted(ports, team, error)


def give_back(ports: Ports, run: Run) -> None:
    """Take back what a timer was counted for that was cancelled before it fired. As far as that can be written: a
    repeat of the call does it else, or the audit."""
    if (writes := holdings.giving_back(run, ports.clock.now_ms())) is None:
        return
    try:
        if isinstance(ports.store.commit(writes), Committed):
            ports.registry.pop((holdings.USED, run.key.team), None)  # it is read anew
    except WorldError as error:
        not_counted(ports, run.key.team, error)


# --- what all share ---------------------------------------------------------------------------------------------


def not_counted(ports: Ports, team: str, error: Exception | None) -> None:
    """Somebody creates without being counted, for a counter that could not be read or written."""
    ports.signals.count("quotas.not_counted_total")
    ports.signals.log("quota_not_counted", team=team, error=repr(error))


def _room_for[K, V](known: dict[K, V], key: K) -> dict[K, V]:
    """What a process remembers is bounded like what it knows of teams."""
    if key not in known and len(known) >= registry.REMEMBERED_MAX:
        known.clear()
    return known
