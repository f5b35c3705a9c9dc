"""Quotas are held: how fast a team creates, how much it holds, how many jobs and keys it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchmarks.quotas import COUNTERS, Site, create, storm

from tests.support.fakes import FakePager, KeptSignals, fake_ports
from tests.support.faults import Countdown, Killed
from tests.support.http import ApiUnderTest
from tickwork.api.gate import KeyGate
from tickwork.core.access import holdings, pacing
from tickwork.core.access.actors import LOCAL
from tickwork.core.errors import QuotaExceeded, Throttled
from tickwork.core.instants import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger.tables import JOBS, RESOURCES, TEAMS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Committed, Item, Put
from tickwork.flows.access import keys, quotas
from tickwork.flows.access.keys import Wanted
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.runs import timers
from tickwork.flows.runs.admitting import let_in
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import PUSH_POOL, Layout, Ports
from tickwork.testing.memory import MemoryStore

TARGET = {"pool": "default", "handler": "h"}
TIMER: dict[str, Any] = {"team": "payments", "delay_s": 3_600, "target": TARGET}


class World:
    """An API over a store, and a team with quotas."""

    def __init__(self, **bounds: int) -> None:
        self.tables = MemoryStore()
        layout = Layout(shards=1, slices=1, pools=("default", PUSH_POOL))
        self.ports = fake_ports(self.tables, layout)
        self.api = ApiUnderTest(self.ports)
        self.routes: list[dict[str, str]] = []
        self.version: int | None = None
        self.team(**bounds)

    def team(self, **bounds: int) -> None:
        body = {"contact": "ann", "quotas": bounds, "routes": self.routes, "version": self.version}
        body = {name: value for name, value in body.items() if value is not None}
        self.version = self.ok(self.api.call("PUT", "/teams/payments", body))["version"]

    @staticmethod
    def ok(answer: tuple[int, Any]) -> Any:
        assert answer[0] < 300, answer
        return answer[1]

    def timer(self, **more: Any) -> tuple[int, Any]:
        return self.api.call("POST", "/timers", TIMER | more)

    def another_process(self) -> Ports:
        return replace(
            fake_ports(self.tables, self.ports.layout),
            clock=self.ports.clock,
            ids=self.ports.ids,
            sender=self.ports.sender,
        )

    def used(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ok(self.api.call("GET", "/teams/payments"))["used"]
        return found

    def counter(self) -> Item:
        return self.tables.get(TEAMS, holdings.used_key("payments")) or {}

    def after(self, duration_ms: int) -> None:
        """Time goes by, with its windows and its audits."""
        end_ms = self.ports.clock.now_ms() + duration_ms
        while self.ports.clock.now_ms() < end_ms:
            step_ms = min(6 * HOUR_MS, end_ms - self.ports.clock.now_ms())
            self.ports.clock.sleep_ms(step_ms)
            for _ in range(3):
                run_window(self.ports, 0, self.ports.clock.now_ms() // SECOND_MS)
            reconcile(self.ports)


def refused(answer: tuple[int, Any]) -> tuple[int, str, dict[str, Any]]:
    return answer[0], answer[1]["type"].rpartition(":")[2], answer[1]["quota"]


# --- how fast ---------------------------------------------------------------------------------------------------


def test_in_a_storm_a_team_gets_its_quota_the_rest_is_refused_and_another_team_hears_nothing_of_it() -> None:
    found = storm(quota=100, rate=1_000, seconds=30, processes=8)
    assert abs(found.total - 3_000) <= 150
    assert found.asked == 30_000
    assert max(found.accepted.values()) <= 115
    assert found.others_accepted == found.others_asked == 600
    assert found.hottest <= 200
    assert found.timers == found.total + found.others_accepted  # what was refused has written nothing
    assert found.counter_units <= found.total * 1.1  # and asking for it hardly anything


def test_a_refusal_is_remembered_for_its_second_and_neither_reads_nor_writes() -> None:
    site = Site(1, creates_per_s=4)
    assert site.create(0, count=9) == 4
    commits, signals = site.tables.commits, site.processes[0].signals
    for _ in range(20):
        assert site.create(0) == 0
    assert site.tables.commits == commits
    assert isinstance(signals, KeptSignals)
    assert signals.counts["quotas.not_counted_total"] == 0
    site.passes_s(1)
    assert site.create(0) == 1


@pytest.mark.parametrize(("rate", "quota", "processes"), [(5, 100, 8), (40, 100, 1), (40, 100, 8), (400, 1_000, 4)])
def test_below_half_of_its_quota_a_team_pays_a_fiftieth_of_a_create(rate: int, quota: int, processes: int) -> None:
    found = storm(quota=quota, rate=rate, seconds=120 if rate < 100 else 20, processes=processes, others_per_s=0)
    assert found.total == found.asked
    assert found.counter_units <= found.total * 0.02 + 8  # the first seconds show that it borrows


@pytest.mark.parametrize("processes", [1, 8])
def test_above_half_of_its_quota_a_team_pays_a_unit_for_a_create_at_most(processes: int) -> None:
    found = storm(quota=100, rate=80, seconds=60, processes=processes, others_per_s=0)
    assert found.total >= found.asked * 0.97
    assert found.counter_units <= found.total


@pytest.mark.parametrize("quota", [1, 2, 3, 7])
def test_a_small_quota_is_held_as_well(quota: int) -> None:
    found = storm(quota=quota, rate=40, seconds=30, processes=4, others_per_s=0)
    assert quota * 30 <= found.total <= quota * 30 + 4 * pacing.free(quota)


def test_a_flood_that_is_spread_thin_is_noticed_when_its_processes_tell_of_it() -> None:
    """Each of them sees no more than a few creates a second, which it lets through unasked."""
    found = storm(quota=100, rate=200, seconds=60, processes=30, others_per_s=0)
    assert found.accepted[59] <= 115
    assert found.accepted[58] <= 115


def test_a_team_without_a_quota_and_one_that_is_not_registered_pay_nothing() -> None:
    site = Site(1)
    site.register("shop", creates_per_s=0)
    for team in ("payments", "shop", "nobody"):
        site.create(0, team)
        commits, reads = site.tables.commits, [0]
        site.tables.get = lambda *_, reads=reads: reads.append(1)  # type: ignore[method-assign,assignment,misc]
        for _ in range(300):
            quotas.admit_timers(site.processes[0], team, [(10, 10)])
        assert (site.tables.commits, reads) == (commits, [0])
        del site.tables.get
    assert not site.tables.items(RESOURCES)


def test_a_request_over_the_quota_is_told_which_one_how_much_and_when_to_come_again() -> None:
    world = World(creates_per_s=2)
    for _ in range(2):
        world.ok(world.timer())
    status, headers, problem = world.api.answer("POST", "/timers", TIMER)
    assert (status, headers["Retry-After"], problem["quota"]) == (429, "1", {"limit": "creates_per_s", "value": 2})
    assert "creates_per_s=2" in problem["detail"]
    assert len(world.tables.items(TIMERS)) == 2
    job = {"team": "payments", "name": "n", "schedule": {"cron": "0 2 * * *"}, "target": TARGET}
    assert refused(world.api.call("POST", "/jobs", job))[:2] == (429, "quota-exceeded")
    world.ports.clock.sleep_ms(SECOND_MS)
    assert world.timer()[0] == 201
    assert world.api.call("POST", "/jobs", job)[0] == 201


def test_a_batch_says_which_of_its_timers_were_created() -> None:
    world = World(creates_per_s=3)
    batch = {"timers": [TIMER | {"client_key": str(number)} for number in range(5)]}
    status, answer = world.api.call("POST", "/timers:batch", batch)
    assert (status, [one["created"] for one in answer["timers"]]) == (207, [True] * 3 + [False] * 2)
    told = answer["timers"][4]
    assert (told["problem"], told["field"], told["client_key"]) == ("quota-exceeded", "timers.4.team", "4")
    assert told["quota"] == {"limit": "creates_per_s", "value": 3}
    assert len(world.tables.items(TIMERS)) == 3
    world.ports.clock.sleep_ms(SECOND_MS)
    again = world.ok(world.api.call("POST", "/timers:batch", batch))
    assert [one["created"] for one in again["timers"]] == [False] * 3 + [True] * 2
    status, headers, problem = world.api.answer("POST", "/timers:batch", {"timers": [TIMER | {"client_key": "x"}] * 1})
    assert status == 201
    status, headers, problem = world.api.answer("POST", "/timers:batch", {"timers": [TIMER]})
    assert (status, headers["Retry-After"], problem["quota"]["limit"]) == (429, "1", "creates_per_s")


def test_of_a_batch_of_two_teams_each_has_its_own_quota() -> None:
    world = World(creates_per_s=1)
    batch = {"timers": [TIMER, TIMER | {"team": "shop"}, TIMER, TIMER | {"team": "shop"}]}
    _, answer = world.api.call("POST", "/timers:batch", batch)
    assert [one["created"] for one in answer["timers"]] == [True, True, False, True]


def test_a_team_with_a_key_is_held_to_its_quotas_behind_its_wall() -> None:
    world = World(creates_per_s=9, pending_timers=2)
    _, text = keys.create_key(world.ports, Wanted("payments", "owner", world.ports.clock.now_ms() + DAY_MS), LOCAL)
    owner = ApiUnderTest(world.ports, KeyGate())
    owner.headers = {"authorization": f"Bearer {text}"}
    assert [owner.call("POST", "/timers", TIMER)[0] for _ in range(3)] == [201, 201, 429]
    assert owner.call("GET", "/teams/payments")[1]["used"]["pending_timers"] == 2
    signals = world.ports.signals
    assert isinstance(signals, KeptSignals)
    assert signals.counts["quotas.not_counted_total"] == 0


def test_a_repeated_request_gets_its_first_answer_whatever_the_quota_says() -> None:
    world = World(creates_per_s=1)
    first = world.ok(world.timer(client_key="k"))
    assert world.timer()[0] == 429
    status, again = world.timer(client_key="k")
    assert (status, again["timer_id"]) == (200, first["timer_id"])


def test_worker_calls_are_never_refused_for_a_quota() -> None:
    world = World(creates_per_s=1, pending_timers=1)
    made = world.ok(world.timer(delay_s=1, retry_policy={"max_attempts": 3}))
    assert world.timer()[0] == 429
    world.ports.clock.sleep_ms(2 * SECOND_MS)
    run_window(world.ports, 0, world.ports.clock.now_ms() // SECOND_MS)
    ref = world.ok(world.api.call("GET", f"/timers/{made['timer_id']}"))["ref"]
    start = world.ok(
        world.api.call("POST", "/runs:start", {"worker": "w", "runs": [{"ref": ref, "claim": "12345678"}]})
    )
    token = start["runs"][0]["token"]
    done = {"ref": ref, "token": token, "outcome": "failed", "error": "no"}
    assert world.ok(world.api.call("POST", "/runs:complete", {"runs": [done]}))["runs"][0]["accepted"]
    assert world.ok(world.api.call("GET", f"/timers/{made['timer_id']}"))["status"] == "waiting"  # its retry is written


# --- how much ---------------------------------------------------------------------------------------------------


def test_pending_timers_fill_a_quota_and_cancelling_makes_room() -> None:
    world = World(pending_timers=3)
    made = [world.ok(world.timer())["timer_id"] for _ in range(3)]
    assert world.used()["pending_timers"] == 3
    status, headers, problem = world.api.answer("POST", "/timers", TIMER)
    assert (status, headers["Retry-After"], problem["quota"]) == (429, "60", {"limit": "pending_timers", "value": 3})
    for _ in range(2):  # a repeat gives nothing back
        world.ok(world.api.call("DELETE", f"/timers/{made[0]}"))
    assert world.used()["pending_timers"] == 2
    world.ports.clock.sleep_ms(SECOND_MS)  # this second's refusal is remembered
    assert world.timer()[0] == 201
    world.ports.clock.sleep_ms(SECOND_MS)
    assert world.timer()[0] == 429
    cancelled = world.ok(world.api.call("POST", "/timers:cancel", {"timer_ids": made}))["timers"]
    assert [one["cancelled"] for one in cancelled] == [True] * 3
    assert world.used()["pending_timers"] == 1


def test_cancelling_a_run_by_its_ref_makes_room_too() -> None:
    world = World(pending_timers=1)
    made = world.ok(world.timer())
    assert world.ok(world.api.call("POST", "/runs:cancel", {"runs": [{"ref": made["ref"]}], "reason": "r"}))
    assert world.used()["pending_timers"] == 0
    world.ok(world.api.call("POST", "/runs:cancel", {"runs": [{"ref": made["ref"]}], "reason": "r"}))
    assert world.used()["pending_timers"] == 0


def test_what_has_fired_is_given_back_by_the_audit_day_after_day() -> None:
    world = World(pending_timers=5)
    for day in range(4):
        for _ in range(5):
            assert world.timer(delay_s=3_600)[0] == 201, day
        assert world.timer()[0] == 429
        world.after(12 * HOUR_MS)
        assert world.used()["pending_timers"] == 0
    assert len(world.tables.items(TIMERS)) == 20


def test_a_timer_that_an_older_version_has_cancelled_is_given_back_at_its_time() -> None:
    world = World(pending_timers=1)
    made = world.ok(world.timer())
    (item,) = world.tables.items(TIMERS)
    assert item["stands_for"].startswith("1#0#")
    take_back, holdings_giving_back = quotas.give_back, holdings.giving_back
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdings, "giving_back", lambda *_: None)
        world.ok(world.api.call("DELETE", f"/timers/{made['timer_id']}"))
    assert (quotas.give_back, holdings.giving_back) == (take_back, holdings_giving_back)
    assert world.used()["pending_timers"] == 1
    world.after(12 * HOUR_MS)
    assert world.used()["pending_timers"] == 0


def test_what_is_cancelled_after_its_time_is_given_back_once() -> None:
    world = World(pending_timers=5)
    made = [world.ok(world.timer(delay_s=1))["timer_id"] for _ in range(2)]
    world.ok(world.timer(delay_s=DAY_MS // SECOND_MS * 3))
    world.ports.clock.sleep_ms(5 * MINUTE_MS)
    world.ok(world.api.call("DELETE", f"/timers/{made[0]}"))
    world.after(HOUR_MS)
    world.ok(world.api.call("DELETE", f"/timers/{made[1]}"))
    world.after(HOUR_MS)
    assert world.counter()["timers"] == 1


def test_the_bytes_of_pending_payloads_are_counted() -> None:
    world = World(payload_bytes=100)
    payload = "x" * 38  # and two quotes
    made = [world.ok(world.timer(payload=payload)) for _ in range(2)]
    status, problem = world.timer(payload=payload)
    assert (status, problem["quota"]) == (429, {"limit": "payload_bytes", "value": 100})
    world.ports.clock.sleep_ms(SECOND_MS)
    assert world.timer(payload="x" * 18)[0] == 201
    assert world.used()["payload_bytes"] == 100
    world.ok(world.api.call("DELETE", f"/timers/{made[0]['timer_id']}"))
    assert (world.used()["payload_bytes"], world.used()["pending_timers"]) == (60, None)


def test_of_a_batch_each_timer_stands_for_what_it_is_counted_for() -> None:
    world = World(pending_timers=100)
    batch = {"timers": [TIMER | {"payload": number} for number in range(7)]}
    world.ok(world.api.call("POST", "/timers:batch", batch))
    assert [item.get("stands_for", "")[:2] for item in world.tables.items(TIMERS)].count("3#") == 2
    assert world.counter()["timers"] == 6  # the seventh is counted with the next
    assert world.counter()["bytes"] == 6


@pytest.mark.parametrize("processes", [1, 4])
def test_far_below_a_quota_one_timer_stands_for_many_and_near_it_each_for_itself(processes: int) -> None:
    site = Site(processes, pending_timers=8_000)
    made = 0
    for number in range(3_500):
        made += site.create(number % processes)
    assert made == 3_500
    assert site.tables.charged(COUNTERS) <= 3_500 * 0.02 + 2
    for number in range(6_000):
        if number % 100 == 0:
            site.passes_s(1)
        made += site.create(number % processes)
    assert 8_000 <= made <= 8_000 + processes * holdings.CHUNK
    standing = [item["stands_for"] for item in site.tables.items(TIMERS) if "stands_for" in item]
    assert sum(int(text.split("#")[0]) for text in standing) == 8_000
    assert standing[-1].startswith("1#")
    assert site.tables.charged(COUNTERS) <= 3_500 * 0.02 + (made - 3_500) + 1_000  # and what refusals asked


def test_a_timer_that_was_created_before_is_not_counted_twice() -> None:
    world = World(pending_timers=10)
    for _ in range(3):
        assert world.timer(client_key="k")[0] in (200, 201)
    assert world.timer(client_key="k", payload=1)[0] == 409
    assert world.counter()["timers"] == 1


# --- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [{"creates_per_s": 1}, {"pending_timers": 5, "creates_per_s": 1}])
def test_a_process_that_dies_at_any_call_of_a_create_leaves_no_half_and_at_most_a_chunk_until_the_week_is_over(
    bounds: dict[str, int],
) -> None:
    died = 0
    for calls in range(40):
        world = World(**bounds)
        world.ports.clock.sleep_ms(SECOND_MS)
        doomed = Countdown(world.another_process(), world.tables, calls)
        try:
            create(doomed.ports, "payments")
        except Killed:
            died += 1
        else:
            break
        made = world.tables.items(TIMERS)
        assert len(made) <= 1
        counted = world.counter().get("timers", 0)
        assert len([one for one in made if "stands_for" in one]) <= counted <= 1
        world.after(9 * DAY_MS if counted > len(made) else DAY_MS)
        assert world.used()["pending_timers"] in (0, None)
        assert world.counter().get("timers", 0) == 0
        assert world.timer()[0] == 201
    assert died >= 4


def test_what_a_crash_has_counted_is_taken_back_when_its_week_is_over_and_nothing_else() -> None:
    world = World(pending_timers=10)
    ten_days = DAY_MS // SECOND_MS * 10
    doomed = Countdown(world.another_process(), world.tables, 0)
    doomed.left = -1
    let = let_in(doomed.ports, [NewTimer("payments", world.ports.clock.now_ms() + DAY_MS, Work("default", "h"))])
    assert len(let.fates) == 1  # and it dies before the timer is written
    world.ok(world.timer(delay_s=ten_days * 3))
    assert world.used()["pending_timers"] == 2
    world.after(12 * DAY_MS)
    assert world.used()["pending_timers"] == 1
    assert len([name for name in world.counter() if name.startswith("timers_")]) == 1


@pytest.mark.parametrize(
    ("verb", "bounds"),
    [
        ("get", {"creates_per_s": 1}),
        ("get_many", {"pending_timers": 1}),
        ("commit", {"creates_per_s": 1, "pending_timers": 1}),
    ],
)
def test_a_counter_that_cannot_be_read_or_written_keeps_nobody_from_creating(verb: str, bounds: dict[str, int]) -> None:
    world = World(**bounds)
    broken = Countdown(world.another_process(), world.tables, -1)

    def busy(called: str, *arguments: Any) -> None:
        if called == verb and _is_counter(arguments[0]):
            raise Throttled("slow down")

    broken.store.before = busy
    for _ in range(3):
        assert create(broken.ports, "payments") == 1
    signals = broken.ports.signals
    assert isinstance(signals, KeptSignals)
    assert signals.counts["quotas.not_counted_total"] >= 1
    assert ("quota_not_counted", "payments") in [(action, facts.get("team")) for action, facts in signals.lines]


def _is_counter(what: Any) -> bool:
    writes = what if isinstance(what, list | tuple) else []
    return what in (RESOURCES, TEAMS) or any(write.table in (RESOURCES, TEAMS) for write in writes)


def test_a_cancellation_that_dies_before_it_gives_back_is_finished_by_its_repeat() -> None:
    world = World(pending_timers=2)
    made = world.ok(world.timer())["timer_id"]
    doomed = Countdown(world.another_process(), world.tables, 1)
    with pytest.raises(Killed):
        timers.cancel_timer(doomed.ports, made)
    assert world.ok(world.api.call("GET", f"/timers/{made}"))["status"] == "cancelled"
    assert world.counter()["timers"] == 1
    world.ok(world.api.call("DELETE", f"/timers/{made}"))
    assert world.counter()["timers"] == 0


def test_what_a_busy_table_has_kept_from_being_tried_is_not_counted() -> None:
    world = World(pending_timers=9)
    broken = Countdown(world.another_process(), world.tables, -1)

    def busy(called: str, *arguments: Any) -> None:
        if called == "commit" and any(write.table is TIMERS for write in arguments[0]):
            raise Throttled("slow down")

    broken.store.before = busy
    new = [NewTimer("payments", world.ports.clock.now_ms() + DAY_MS, Work("default", "h"))] * 4
    let = [one for one in let_in(broken.ports, new).fates if isinstance(one, NewTimer)]
    fates = timers.create_each(broken.ports, let)
    assert [isinstance(fate, timers.NotTried) for fate in fates] == [False, True, True, True]
    assert world.counter()["timers"] == 1  # whether the first was created its caller cannot tell: its week's end does


# --- jobs and keys ----------------------------------------------------------------------------------------------


def job(name: str) -> dict[str, Any]:
    return {"team": "payments", "name": name, "schedule": {"cron": "0 2 * * *"}, "target": TARGET}


def test_jobs_are_counted_with_those_that_were_there_and_deleting_one_makes_room() -> None:
    world = World()
    for name in ("a", "b"):
        world.ok(world.api.call("POST", "/jobs", job(name)))
    world.team(jobs=3)
    world.ok(world.api.call("POST", "/jobs", job("c")))
    status, problem = world.api.call("POST", "/jobs", job("d"))
    assert (status, problem["quota"]) == (429, {"limit": "jobs", "value": 3})
    assert world.api.call("GET", "/jobs/payments:d")[0] == 404
    assert world.api.call("POST", "/jobs", job("c"))[0] == 200
    assert world.used()["jobs"] == 3
    for _ in range(2):
        world.ok(world.api.call("DELETE", "/jobs/payments:a"))
    assert world.used()["jobs"] == 2
    assert world.api.call("POST", "/jobs", job("d"))[0] == 201
    assert world.api.call("POST", "/jobs", job("e"))[0] == 429


def test_the_same_job_from_two_processes_at_once_is_one_job_also_where_there_is_room_for_one() -> None:
    world = World(jobs=1)
    other = Countdown(world.another_process(), world.tables, -1)

    def first(called: str, *arguments: Any) -> None:
        if called == "commit" and any(write.table is JOBS for write in arguments[0]):
            other.store.before = lambda *_: None
            world.ok(world.api.call("POST", "/jobs", job("a")))

    other.store.before = first
    assert ApiUnderTest(other.ports).call("POST", "/jobs", job("a"))[0] == 200
    assert world.used()["jobs"] == 1


def test_jobs_are_counted_anew_each_day() -> None:
    world = World(jobs=5)
    world.ok(world.api.call("POST", "/jobs", job("a")))
    (item,) = [item for item in world.tables.items(TEAMS) if item["team"] == "payments#jobs"]
    world.tables.remove(TEAMS, item)
    world.tables.commit([Put(TEAMS, item | {"jobs": 5}, Anyway("as an older version's deletions leave it"))])
    assert world.api.call("POST", "/jobs", job("b"))[0] == 429
    world.ports.clock.sleep_ms(DAY_MS)
    assert world.api.call("POST", "/jobs", job("b"))[0] == 201
    assert world.used()["jobs"] == 2
    world.ok(world.api.call("DELETE", "/jobs/payments:a"))
    world.ports.clock.sleep_ms(DAY_MS)
    assert world.api.call("POST", "/jobs", job("c"))[0] == 201
    assert world.used()["jobs"] == 2  # what is deleted is in the index for a month


def test_valid_keys_are_counted_and_one_is_rotated_at_the_quota() -> None:
    world = World(keys=1)
    key = {"team": "payments", "role": "viewer"}
    made = world.ok(world.api.call("POST", "/keys", key))["key_id"]
    status, problem = world.api.call("POST", "/keys", key)
    assert (status, problem["quota"]) == (429, {"limit": "keys", "value": 1})
    world.ok(world.api.call("POST", f"/keys/{made}/rotate", {}))
    assert world.used()["keys"] == 2
    world.ok(world.api.call("DELETE", f"/keys/{made}"))
    assert world.used()["keys"] == 1
    assert world.api.call("POST", "/keys", key)[0] == 429


def test_a_team_that_is_registered_anew_begins_with_nothing() -> None:
    world = World(pending_timers=2, jobs=2)
    world.ok(world.api.call("POST", "/jobs", job("a")))
    made = world.ok(world.timer(delay_s=1))["timer_id"]
    world.ok(world.api.call("DELETE", f"/timers/{made}"))
    world.ok(world.api.call("DELETE", "/jobs/payments:a"))
    world.after(3 * DAY_MS)
    world.ok(world.api.call("DELETE", "/teams/payments"))
    assert not [item for item in world.tables.items(TEAMS) if item["cell"] == holdings.USED]


# --- the owner hears --------------------------------------------------------------------------------------------


def test_the_owner_hears_at_four_fifths_by_the_routes_that_are_proven_once_a_quota_and_day() -> None:
    world = World()
    topic = "arn:aws:sns:eu-west-1:123456789012:env-pager-payments"
    world.routes = [{"kind": "topic", "address": topic}, {"kind": "email", "address": "ann@example.org"}]
    world.team(pending_timers=10, jobs=5)
    pager = world.ports.pager
    assert isinstance(pager, FakePager)
    world.ok(world.api.call("POST", "/teams/payments/routes:test"))
    pager.sent.clear()
    for _ in range(7):
        world.ok(world.timer())
    assert not pager.sent
    for _ in range(5):
        world.timer()
    ((address, text),) = pager.sent
    assert address == topic
    assert "8 of its quota pending_timers=10" in text
    for name in "abcde":
        world.ok(world.api.call("POST", "/jobs", job(name)))
    assert ["jobs=5" in text for _, text in pager.sent] == [False, True]
    others = world.another_process()
    assert ApiUnderTest(others).call("POST", "/timers", TIMER)[0] == 429
    assert isinstance(others.pager, FakePager)
    assert (len(pager.sent), others.pager.sent) == (2, [])
    paged = [item for item in world.tables.items(TEAMS) if item["cell"] == "@paged"]
    assert [item["team"] for item in paged] == ["payments#pending_timers", "payments#jobs"]
    for item in paged:
        world.tables.remove(TEAMS, item)
    assert world.timer()[0] == 429  # of what it has told today a process asks nobody
    assert (len(pager.sent), [item for item in world.tables.items(TEAMS) if item["cell"] == "@paged"]) == (2, [])
    world.ports.clock.sleep_ms(DAY_MS)
    assert world.timer()[0] == 429
    assert len(pager.sent) == 3


def test_who_is_refused_for_creating_too_fast_is_heard_of() -> None:
    world = World()
    world.routes = [{"kind": "webhook", "address": "https://hooks.example.org/p"}]
    world.team(creates_per_s=1)
    pages: list[str] = []
    signals = world.ports.signals
    assert isinstance(signals, KeptSignals)
    for _ in range(4):
        world.timer()
    pages = [str(facts["limit"]) for action, facts in signals.lines if action == "owner_paged"]
    assert pages == ["creates_per_s"]
    assert [facts["routes"] for action, facts in signals.lines if action == "owner_paged"] == [0]


# --- the core ---------------------------------------------------------------------------------------------------


def test_a_refusal_says_what_it_says_again() -> None:
    first = QuotaExceeded("payments", "jobs", 5, retry_after_s=60)
    again = first.again()
    assert again is not first
    assert (again.detail, again.remedy, again.limit, again.value) == (first.detail, first.remedy, "jobs", 5)


# --- what processes have of each other --------------------------------------------------------------------------


def _busy(site: Site, process: int, rate: int, seconds: int) -> None:
    """One process creates so many a second, evenly, until it borrows."""
    for _ in range(seconds):
        for _ in range(rate):
            site.create(process)
            site.passes_s(0.9 / rate)
        site.passes_s(0.1)


def _to_a_window(site: Site) -> None:
    now_s = site.clock.at_ms // SECOND_MS
    site.passes_s(pacing.WINDOW_S - now_s % pacing.WINDOW_S)


def test_what_is_lent_to_one_process_is_not_given_out_to_others() -> None:
    site = Site(4, creates_per_s=100)
    _to_a_window(site)
    _busy(site, 0, 60, 6)
    window = site.tables.get(RESOURCES, pacing.window_key("payments", site.clock.at_ms // SECOND_MS)) or {}
    assert 60 <= window["lent"] <= 70
    for _ in range(2):
        made = sum(site.create(number % 4) for number in range(800))
        assert 95 <= made <= 100 + 4 * pacing.free(100)
        site.passes_s(1)
    made = sum(site.create(number % 4) for number in range(800))
    assert 95 <= made <= 105


def test_no_more_is_lent_to_all_than_leaves_something_for_who_comes() -> None:
    site = Site(5, creates_per_s=100)
    _to_a_window(site)
    for _ in range(8):
        for _ in range(12):
            for process in range(5):
                site.create(process)
            site.passes_s(0.9 / 12)
        site.passes_s(0.1)
    now_s = site.clock.at_ms // SECOND_MS
    window = site.tables.get(RESOURCES, pacing.window_key("payments", now_s)) or {}
    assert 50 <= window["lent"] <= pacing.lendable(100)


def test_of_two_that_would_borrow_at_once_what_is_left_one_does() -> None:
    tables = MemoryStore()
    wish = pacing.asking("payments", 100, pacing.Pace(), pacing.Lend(40, 0), 1_000)
    assert [isinstance(tables.commit([wish]), Committed) for _ in range(2)] == [True, False]
    rest = pacing.asking("payments", 100, pacing.Pace(), pacing.Lend(30, 0), 1_000)
    assert [isinstance(tables.commit([rest]), Committed) for _ in range(2)] == [True, False]


def test_nobody_is_refused_by_what_others_have_given_back_since() -> None:
    world = World(pending_timers=1)
    made = world.ok(world.timer())
    assert create(other := world.another_process(), "payments") == 0
    world.ports.clock.sleep_ms(SECOND_MS)
    world.ok(world.api.call("DELETE", f"/timers/{made['timer_id']}"))
    assert create(other, "payments") == 1
