"""Testing the routes by which a team is paged, and saying how they stand.

A webhook's test is a timer of the team like any other, so it is posted by the pusher: signed, to public addresses only,
with its failure on record. Refuses to know SNS. A crash between the message and the note of it leaves a route untested
that was sent a message; the next test sends another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwork.core.access.actors import Actor
from tickwork.core.access.pagers import FAILED, PROVEN, UNCONFIRMED, RouteTest, Standing, key_of_test, standing_of
from tickwork.core.access.teams import PagerRoute, Team, team_key
from tickwork.core.errors import CallerError, WorldError
from tickwork.core.instants import DAY_MS, HOUR_MS, ceil_to_second
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.messages import compact_json
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Below, Committed, Item, Missing, Put, Update, any_of
from tickwork.core.runs.push_targets import parse_target
from tickwork.flows.access.quotas import Near
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_many
from tickwork.flows.runs import timers
from tickwork.flows.runs.client_keys import place_of
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import PUSH_POOL, Ports

PUSHES_AT_ONCE = 1
ASKS_AGAIN_MS = HOUR_MS
"""How soon an address that does not confirm is mailed again: it may be a stranger's, whom somebody wants to flood."""
PAGED_MAX = 2_000
"""Quotas of which a process remembers that their owner was told."""
PAGED = "@paged"
"""Partition of the table `teams`: `team#limit`, and the day on which the owner was told that it is nearly used up."""


def test_routes(ports: Ports, team: Team, actor: Actor) -> list[Standing]:
    """Send a test message by each route of a team. How each stands now: a webhook's message is on its way."""
    for route, last in zip(team.routes, _last_tests(ports, team), strict=True):
        asked_at_ms = last.at_ms if last is not None and last.state == UNCONFIRMED else -ASKS_AGAIN_MS
        asks = ports.clock.now_ms() - asked_at_ms >= ASKS_AGAIN_MS
        test = _test(ports, team, route, actor, asks=asks)
        if test.state == UNCONFIRMED and not asks:
            continue  # when it was asked stays as it is
        latest = any_of(Missing("at_ms"), Below("at_ms", test.at_ms + 1))
        commit(ports, Put(TEAMS, test.to_item(), latest))
        ports.signals.log("pager_tested", team=team.team, way=route.way, by=actor.name, state=test.state or "sent")
    return standings(ports, team)


def _test(ports: Ports, team: Team, route: PagerRoute, actor: Actor, *, asks: bool) -> RouteTest:
    key, at_ms = key_of_test(team.team, route)["team"], ports.clock.now_ms()
    text = f"This is a test of a pager route of the team {team.team}, asked for by {actor.name}. Nothing is wrong."
    if route.way == "webhook":
        if PUSH_POOL not in ports.layout.pools:
            return RouteTest(key, at_ms, actor.name, state=FAILED, detail="this environment does not push")
        return RouteTest(key, at_ms, actor.name, timer_id=_posted(ports, team, route.address, text))
    said = ports.pager.page(team.team, route.way, route.address, "Test of a pager route", text, asks=asks)
    return RouteTest(key, at_ms, actor.name, state=said.state, detail=said.detail)


def _posted(ports: Ports, team: Team, url: str, text: str, kind: str = "test") -> str:
    payload = compact_json({"kind": kind, "team": team.team, "text": text})
    cap = Resource(parse_target(url, allow_private=ports.layout.push_private).resource, PUSHES_AT_ONCE)
    work = Work(PUSH_POOL, PUSH_POOL, payload, retry=RetryPolicy(max_attempts=1), resources=(cap,), url=url)
    (created,) = timers.create_timers(ports, [NewTimer(team.team, ceil_to_second(ports.clock.now_ms()), work)])
    return created.run.key.job_id


def standings(ports: Ports, team: Team) -> list[Standing]:
    """How each route of a team stands, by its last test."""
    tests = _last_tests(ports, team)
    runs = _runs_of(ports, [test.timer_id for test in tests if test is not None and test.timer_id])
    return [standing_of(test, runs.get(test.timer_id) if test is not None else None) for test in tests]


def _last_tests(ports: Ports, team: Team) -> list[RouteTest | None]:
    items = read_many(ports, TEAMS, [key_of_test(team.team, route) for route in team.routes])
    return [None if item is None else RouteTest.from_item(item) for item in items]


def _runs_of(ports: Ports, timer_ids: Sequence[str]) -> dict[str, Run]:
    places = {timer_id: place for timer_id in timer_ids if (place := place_of(timer_id)) is not None}
    found: list[Item | None] = read_many(ports, TIMERS, [place.as_item() for place in places.values()])
    return {timer_id: Run.from_item(item) for timer_id, item in zip(places, found, strict=True) if item is not None}


# --- quotas that are nearly used up -----------------------------------------------------------------------------


def page_owners(ports: Ports, near: Mapping[str, Sequence[Near]]) -> None:
    """Tell who answers for these teams that quotas are nearly used up: once a quota and day, by the routes that are
    proven. Tried only: what was created is, whoever hears of it. The day is noted first, so a crash between keeps the
    owner from hearing of it until the next."""
    for team, quotas in near.items():
        for one in quotas:
            try:
                if _is_first_today(ports, team, one.limit):
                    _page(ports, team, one)
            except (WorldError, CallerError, Unreadable) as error:
                ports.signals.log("owner_not_paged", team=team, limit=one.limit, error=repr(error))


def _is_first_today(ports: Ports, team: str, limit: str) -> bool:
    day, paged = ports.clock.now_ms() // DAY_MS, ports.quota_counts.paged
    if paged.get((team, limit)) == day:
        return False
    if len(paged) >= PAGED_MAX:
        paged.clear()
    paged[team, limit] = day
    key: Item = {"cell": PAGED, "team": f"{team}#{limit}"}
    earlier = any_of(Missing("day"), Below("day", day))
    return isinstance(ports.store.commit([Update(TEAMS, key, earlier, set={"day": day})]), Committed)


def _page(ports: Ports, name: str, near: Near) -> None:
    item = ports.store.get(TEAMS, team_key(name))
    if item is None:
        return
    team, subject = Team.from_item(item), f"Quota {near.limit} of the team {name}"
    text = (
        f"The team {name} uses {near.used} of its quota {near.limit}={near.value}: at that, what it creates is refused."
    )
    reached = [route for route, one in zip(team.routes, standings(ports, team), strict=True) if one.state == PROVEN]
    for route in reached:
        if route.way == "webhook":
            _posted(ports, team, route.address, text, "quota")
        else:
            ports.pager.page(name, route.way, route.address, subject, text, asks=False)
    ports.signals.log("owner_paged", team=name, limit=near.limit, used=near.used, value=near.value, routes=len(reached))
