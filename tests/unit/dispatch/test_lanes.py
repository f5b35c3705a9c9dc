"""Lanes (decision 165): what they are called, whose queue they use, in which cell they lie, and who is taken first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.teams import TeamContent
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.cells import CellShape, of_lane, of_team
from tickwork.core.ledger.lanes import IDLE_TURNS, LANES, P0, P1, P2, TURNS, plain_pool, pool_of
from tickwork.core.ledger.work import Work
from tickwork.flows.access import placements, teams
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.runs import timers
from tickwork.ports import Layout, Ports, ready_queue
from tickwork.testing.memory import MemoryStore
from tickwork.worker.delivery import Delivery
from tickwork.worker.lanes import IDLE_POLL_S, LanedSource

LAYOUT = Layout(
    shards=1, slices=1, pools=("default", "default-p0", "default-p2", "payments"), others=(CellShape("bulk", 1, 1),)
)
MESSAGE = {
    "ref": "main#0000#29888640|1793318410#shop#report#1793318410",
    "run_id": "r",
    "job_id": "shop:report",
    "handler": "report",
    "attempt": 1,
    "scheduled_at": "2026-10-30T00:00:10Z",
    "fire_at": "2026-10-30T00:00:10Z",
}


class Api(ApiUnderTest):
    def __init__(self) -> None:
        self.ports = fake_ports(MemoryStore(), LAYOUT)
        super().__init__(self.ports)


def api() -> Api:
    return Api()


def timer(one: ApiUnderTest, **given: Any) -> tuple[int, Any]:
    body = {"team": "shop", "delay_s": 5, "target": {"pool": "default", "handler": "report"}}
    return one.call("POST", "/timers", body | given)


def job(one: ApiUnderTest, **given: Any) -> tuple[int, Any]:
    body = {"team": "shop", "name": "report", "schedule": {"rate": "1 hour"}, "target": {"pool": "default"}}
    return one.call("POST", "/jobs", body | given)


# --- which queue ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", LANES)
def test_the_queue_of_a_lane_is_a_pool_of_its_own_and_that_of_p1_the_pool_itself(lane: str) -> None:
    assert pool_of("default", P1) == "default"
    assert len({pool_of("default", one) for one in LANES}) == len(LANES)
    assert plain_pool(pool_of("default", lane), lane) == "default"


@pytest.mark.parametrize(("lane", "queue"), [("P0", "default-p0"), ("P1", "default"), ("P2", "default-p2")])
def test_what_is_due_goes_to_the_queue_of_its_lane(lane: str, queue: str) -> None:
    one = api()
    ports = one.ports
    assert timer(one, lane=lane)[0] == 201
    ports.clock.sleep_ms(5 * SECOND_MS)
    run_window(ports, 0, ports.clock.now_ms() // SECOND_MS)
    sent = {pool: len(ports.sender.bodies(ready_queue(pool))) for pool in LAYOUT.pools}  # type: ignore[attr-defined]
    assert {pool for pool, count in sent.items() if count} == {queue}


def test_a_lane_is_shown_where_it_says_something_and_the_pool_as_it_was_named() -> None:
    one = api()
    _, made = job(one, lane="P2")
    assert (made["lane"], made["target"]["pool"]) == ("P2", "default")
    assert one.call("GET", "/jobs/shop:report")[1]["lane"] == "P2"
    _, standard = job(one, name="standard", lane="P1")
    assert "lane" not in standard
    _, shown = timer(one, lane="P0")
    assert (shown["lane"], shown["target"]["pool"]) == ("P0", "default")


def test_a_change_keeps_the_lane_and_changes_it_alone() -> None:
    one = api()
    job(one, lane="P2")
    _, kept = one.call("PATCH", "/jobs/shop:report", {"version": 1, "lease_s": 90})
    assert (kept["lane"], kept["target"]["pool"], kept["version"]) == ("P2", "default", 2)
    _, changed = one.call("PATCH", "/jobs/shop:report", {"version": 2, "lane": "P0"})
    assert (changed["lane"], changed["target"]["pool"]) == ("P0", "default")
    _, plain = one.call("PATCH", "/jobs/shop:report", {"version": 3, "lane": "P1"})
    assert "lane" not in plain
    assert plain["target"]["pool"] == "default"


def test_a_request_that_names_the_standard_lane_is_the_one_that_names_none() -> None:
    one = api()
    assert job(one)[0] == 201
    assert job(one, lane="P1")[0] == 200
    assert job(one, lane="P2")[0] == 409


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"lane": "P3"}, "lane"),
        ({"lane": "P0", "target": {"pool": "payments", "handler": "h"}}, "lane"),
        ({"lane": "P0", "target": {"pool": "own", "handler": "h"}}, "lane"),
        ({"lane": "P0", "target": {"pool": "a-name-of-seventeen", "handler": "h"}}, "lane"),
    ],
)
def test_a_lane_that_the_pool_does_not_have_is_refused(given: dict[str, Any], field: str) -> None:
    status, problem = timer(api(), **given)
    assert (status, problem["errors"][0]["field"]) == (422, field)


def test_pushes_have_one_lane() -> None:
    one = ApiUnderTest(fake_ports(MemoryStore(), Layout(pools=("default", "push"))))
    status, problem = timer(one, lane="P0", target={"url": "https://hooks.example.com/x"})
    assert status == 422
    assert "`lane` goes with a `pool`" in problem["detail"]


def test_a_team_makes_a_lane_of_its_own_pool_by_a_pool_beside_it() -> None:
    one = api()
    teams.put_team(one.ports, "shop", TeamContent(contact="ann"), None, LOCAL)
    for name in ("fast", "fast-p0"):
        assert one.call("PUT", f"/teams/shop/pools/{name}", {})[0] == 200
    status, made = job(one, lane="P0", target={"pool": "fast"})
    assert (status, made["target"]["pool"]) == (201, "shop_fast")
    assert job(one, name="bulk", lane="P2", target={"pool": "fast"})[0] == 422


# --- which cell -------------------------------------------------------------------------------------------------


def made(ports: Ports, team: str, lane: str) -> str:
    new = timers.NewTimer(team, ports.clock.now_ms() + 60_000, Work("default", "h", lane="" if lane == P1 else lane))
    return timers.create_timers(ports, [new])[0].run.key.cell


def test_a_lane_lies_in_the_cell_it_is_placed_in_but_for_teams_that_have_one() -> None:
    ports = fake_ports(MemoryStore(), LAYOUT)
    placements.place(ports, of_lane(P2), "bulk", LOCAL, "")
    placements.place(ports, of_team("shop"), "main", LOCAL, "")
    assert [made(ports, "web", lane) for lane in LANES] == ["main", "main", "bulk"]
    assert made(ports, "shop", P2) == "main"
    placements.take_back(ports, of_lane(P2), LOCAL, "")
    assert made(ports, "web", P2) == "main"


def test_a_jobs_chain_goes_to_the_cell_of_its_lane() -> None:
    one = api()
    status, placed = one.call("PUT", "/placement", {"cell": "bulk", "lane": "P2"})
    assert (status, placed["of"]) == (200, "lane:P2")
    job(one, lane="P2")
    item = one.call("GET", "/jobs/shop:report/runs")[1]["runs"][0]
    assert str(item["ref"]).startswith("bulk#")
    assert one.call("DELETE", "/placement", lane="P2")[1]["cell"] is None


# --- who is taken first -----------------------------------------------------------------------------------------


class Lane:
    """A lane with so many messages."""

    def __init__(self, count: int) -> None:
        self.count, self.waits = count, list[int | None]()
        self.kept = Counter[str]()

    def take(self, most: int, wait_s: int | None = None) -> list[Delivery]:
        self.waits.append(wait_s)
        taken = min(most, self.count)
        self.count -= taken
        return [Delivery.of("receipt", dict(MESSAGE), "claim") for _ in range(taken)]

    def hold(self, deliveries: Sequence[Delivery]) -> None:
        self.kept["hold"] += len(deliveries)

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        self.kept["drop"] += len(deliveries)

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        self.kept["give_back"] += len(deliveries)

    def close(self) -> None:
        self.kept["close"] += 1


def test_transactional_runs_go_first_and_nobody_starves() -> None:
    lanes = {lane: Lane(10_000) for lane in LANES}
    source = LanedSource(lanes)
    shares = Counter(one.lane for _ in range(100) for one in source.take(8))
    assert shares == {P0: 640, P1: 80, P2: 80}
    assert TURNS.count(P0) > len(TURNS) // 2


def test_what_a_lane_leaves_room_for_the_others_fill_in_their_order() -> None:
    lanes = {P0: Lane(2), P1: Lane(3), P2: Lane(100)}
    assert Counter(one.lane for one in LanedSource(lanes).take(8)) == {P0: 2, P1: 3, P2: 3}


def test_a_message_of_p0_waits_for_one_poll_of_another_lane_at_most() -> None:
    lanes = {lane: Lane(0) for lane in LANES}
    source = LanedSource(lanes)
    assert source.take(8) == []
    for _ in range(8):
        assert source.take(8) == []
    waited = {lane: one.waits.count(IDLE_POLL_S) for lane, one in lanes.items()}
    assert waited == {P0: 4, P1: 2, P2: 2}
    assert all(P0 in pair for pair in pairwise(IDLE_TURNS))
    lanes[P2].count = 5
    assert [one.lane for _ in range(4) for one in source.take(8)] == [P2] * 5


def test_a_worker_of_two_lanes_asks_no_other() -> None:
    source = LanedSource({P1: Lane(100), P0: Lane(0)})
    assert {one.lane for _ in range(20) for one in source.take(4)} == {P1}


def test_a_run_goes_back_to_the_lane_that_it_came_from() -> None:
    lanes = {P0: Lane(2), P2: Lane(3)}
    source = LanedSource(lanes)
    taken = source.take(5)
    source.hold(taken)
    source.drop(taken[:1])
    source.give_back(taken[1:], 0)
    source.close()
    assert lanes[P0].kept == {"hold": 2, "drop": 1, "give_back": 1, "close": 1}
    assert lanes[P2].kept == {"hold": 3, "give_back": 3, "close": 1}
