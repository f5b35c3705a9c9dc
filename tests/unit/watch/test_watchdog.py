"""The watchdog: who is silent is told of to its owner, once, and nobody else is (O2, lessons A1 to A14)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import FakeClock, FakePager, KeptSignals, fake_ports
from tests.support.http import ApiUnderTest
from tests.support.runs_world import Crash, WatchedStore
from tickwork.core.errors import Throttled, WorldError
from tickwork.core.instants import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TEAMS, TIMERS
from tickwork.core.ledger.writes import Anyway, Item, Put, Update
from tickwork.core.watch import incidents, wheel
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import registering
from tickwork.flows.ledger.lasts import note_last
from tickwork.flows.watch import incidents as watched
from tickwork.flows.watch import watching
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

TOPIC = "arn:aws:sns:eu-west-1:123456789012:env-pager-payments"
HOURLY = {"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z"}


class World:
    """A team with a topic, its jobs, and a watchdog that looks each minute of virtual time."""

    def __init__(self) -> None:
        self.tables = MemoryStore()
        self.store = WatchedStore(self.tables)
        layout = Layout(shards=1, slices=1, pools=("default", "push"))
        self.ports = fake_ports(self.store, layout)  # type: ignore[arg-type]
        assert isinstance(self.ports.clock, FakeClock)
        assert isinstance(self.ports.pager, FakePager)
        assert isinstance(self.ports.signals, KeptSignals)
        self.clock, self.pager, self.signals = self.ports.clock, self.ports.pager, self.ports.signals
        self.api = ApiUnderTest(self.ports)
        self.team()
        self.watch()

    def team(self, *routes: tuple[str, str], version: int | None = None, **content: Any) -> None:
        told = [{"kind": kind, "address": address} for kind, address in routes or (("topic", TOPIC),)]
        body = {"contact": "ann", "routes": told} | content | ({"version": version} if version else {})
        status, answer = self.api.call("PUT", "/teams/payments", body)
        assert status == 200, answer

    def job(self, name: str = "rates", **fields: Any) -> str:
        body = {"team": "payments", "name": name, "schedule": HOURLY, "target": {"pool": "default"}}
        body |= {"dead_man_switch": "on", "tolerance_s": 0, "exact_reason": "a test"}
        status, answer = self.api.call("POST", "/jobs", body | fields)
        assert status == 201, answer
        return str(answer["job_id"])

    def succeed(self, job_id: str, status: str = "succeeded") -> None:
        """As the run of the pending occurrence ends now, and the next one is materialised."""
        run_window(self.ports, 0, self.clock.at_ms // SECOND_MS)
        key = self.passed(job_id)
        note_last(self.ports, key, status, self.clock.at_ms, self.clock.at_ms - 1_000)

    def passed(self, job_id: str) -> Any:
        job = registering.get_job(self.ports, job_id)
        key = job.next_key("main")
        assert key is not None
        return replace(key, scheduled_at_ms=job.fired_through_ms)

    def watch(self) -> watching.Pass:
        return watching.watch(self.ports)

    def live(self, duration_ms: int, *jobs: str, status: str = "succeeded") -> None:
        """Time goes by: these jobs run each full hour, and the watchdog looks each minute."""
        end_ms = self.clock.at_ms + duration_ms
        while self.clock.at_ms < end_ms:
            self.clock.at_ms += MINUTE_MS
            if self.clock.at_ms // MINUTE_MS % 60 == 1:
                for job_id in jobs:
                    self.succeed(job_id, status)
            self.watch()

    @property
    def told(self) -> list[str]:
        return [text for address, text in self.pager.sent if address == TOPIC]

    def items(self, cell: str) -> list[Item]:
        return [item for item in self.store.items(TEAMS) if str(item["cell"]).startswith(cell)]

    @property
    def deadlines(self) -> list[Item]:
        return self.items("@wheel#")

    @property
    def open(self) -> list[Item]:
        return [one for one in self.items("@incidents") if one["cell"] == "@incidents"]


@pytest.fixture
def world() -> World:
    return World()


# --- who is told, and who is not ------------------------------------------------------------------------------


def test_a_healthy_job_is_never_told_of_and_costs_a_write_for_each_silence_that_is_allowed(world: World) -> None:
    job_id = world.job()
    world.live(2 * HOUR_MS, job_id)
    before = len(world.store.commits)
    world.live(2 * DAY_MS, job_id)
    puts = [
        write
        for writes in world.store.commits[before:]
        for write in writes
        if isinstance(write, Put) and str(write.item.get("cell", "")).startswith("@wheel#")
    ]
    assert world.told == []
    assert len(world.deadlines) == 1
    assert 20 <= len(puts) <= 26  # 48 hours, and 2 hours and a little are allowed


def test_a_silent_job_is_told_of_within_five_minutes_of_its_deadline_once(world: World) -> None:
    job_id = world.job()
    world.live(3 * HOUR_MS, job_id)
    job = registering.get_job(world.ports, job_id)
    deadline_ms = job.last_success_at_ms + 2 * HOUR_MS + 360 * SECOND_MS  # two gaps, and what a quick run takes
    told_at: list[int] = []
    while world.clock.at_ms < deadline_ms + 10 * MINUTE_MS:
        world.live(MINUTE_MS)
        told_at += [world.clock.at_ms] * (len(world.told) - len(told_at))
    (at_ms,) = told_at
    assert deadline_ms < at_ms <= deadline_ms + 5 * MINUTE_MS
    (text,) = world.told
    assert "no success since" in text
    assert "at most 7560 s were allowed" in text
    assert "tickwork incidents list --team payments" in text


def test_a_first_route_that_fails_has_the_others_hear_at_once(world: World) -> None:
    mail = "ann@example.org"
    world.team(("topic", TOPIC), ("email", mail), version=1)
    world.pager.confirmed.add(mail)
    world.pager.broken.add(TOPIC)
    job_id = world.job()
    world.live(2 * HOUR_MS, job_id)
    while not world.open:
        world.live(MINUTE_MS)
    world.live(4 * MINUTE_MS)
    assert [address for address, _ in world.pager.sent] == [mail], "before it is time for a second route"


def test_what_no_route_has_taken_is_told_as_soon_as_one_does(world: World) -> None:
    """A message that nobody got is none that was told: it is not left until the next repetition."""
    world.pager.broken.add(TOPIC)
    job_id = world.job()
    world.live(2 * HOUR_MS, job_id)
    world.live(3 * HOUR_MS - 30 * MINUTE_MS)
    assert world.told == []
    (incident,) = world.open
    assert not incident.get("told_at_ms")
    world.pager.broken.clear()
    world.live(3 * MINUTE_MS)
    assert len(world.told) == 1
    world.live(10 * MINUTE_MS)
    assert len(world.told) == 1


def test_a_recovery_that_no_route_takes_does_not_stay_for_ever(world: World) -> None:
    job_id = world.job()
    world.live(2 * HOUR_MS, job_id)
    world.live(3 * HOUR_MS)
    assert len(world.told) >= 1
    world.pager.broken.add(TOPIC)
    world.live(70 * MINUTE_MS, job_id)
    assert world.open == []


def test_the_next_success_closes_it_and_says_how_many_were_missed(world: World) -> None:
    job_id = world.job()
    world.live(2 * HOUR_MS, job_id)
    world.live(5 * HOUR_MS)
    assert len(world.told) >= 1
    while world.clock.at_ms // MINUTE_MS % 60 != 1:
        world.live(MINUTE_MS)
    world.succeed(job_id)
    before = len(world.told)
    world.live(3 * MINUTE_MS)
    (closed,) = world.told[before:]
    assert "it has succeeded again" in closed
    assert "occurrences were missed" in closed
    assert world.open == []
    assert len(world.deadlines) >= 1
    world.live(90 * MINUTE_MS, job_id)
    assert len(world.told) == before + 1  # recovers once


def test_runs_that_all_fail_are_silence_and_a_retry_that_ends_well_is_none(world: World) -> None:
    failing, healing = world.job("failing"), world.job("healing")
    world.live(2 * HOUR_MS, failing, healing)
    end_ms = world.clock.at_ms + 4 * HOUR_MS
    while world.clock.at_ms < end_ms:
        world.live(MINUTE_MS)
        if world.clock.at_ms // MINUTE_MS % 60 == 1:
            world.succeed(failing, "dead")
            world.succeed(healing)
    assert any("payments:failing" in text and "ended as dead" in text for text in world.told)
    assert not any("healing" in text for text in world.told)


def test_who_switched_nothing_on_is_not_in_the_wheel(world: World) -> None:
    world.job(dead_man_switch="off")
    world.job("other", dead_man_switch=None)
    world.live(4 * HOUR_MS)
    assert (world.deadlines, world.told) == ([], [])


def test_a_success_that_the_job_was_not_told_of_counts_by_the_ledger(world: World) -> None:
    """Its worker died between the end of the run and the note on the job."""
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    until_it_is_due(world, job_id)
    run_window(world.ports, 0, world.clock.at_ms // SECOND_MS)
    found = [item for item in world.store.items(TIMERS) if item.get("job_id") == job_id and "attempt" not in item]
    newest = max(found, key=lambda item: item["scheduled_at_ms"] * (item["scheduled_at_ms"] <= world.clock.at_ms))
    key = {"pk": newest["pk"], "sk": newest["sk"]}
    ended = {"status": "succeeded", "ended_at_ms": world.clock.at_ms}
    world.store.commit([Update(TIMERS, key, Anyway("its end"), set=ended)])
    world.live(20 * MINUTE_MS)
    assert (world.told, world.open) == ([], [])


def test_a_success_within_two_minutes_of_the_deadline_ends_it_unheard(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    while not world.open:
        world.live(MINUTE_MS)
    world.succeed(job_id)
    world.live(10 * MINUTE_MS)
    assert (world.told, world.open) == ([], [])
    assert len(world.deadlines) == 1


def test_an_incident_that_is_open_is_not_opened_again(world: World) -> None:
    job_id = silent(world)
    (before,) = world.open
    again = incidents.opened(job_id, incidents.SILENT, world.clock.at_ms)
    assert watched.open_one(world.ports, again) is False
    assert world.open == [before]


def test_a_success_of_an_older_occurrence_than_the_last_that_ended_counts(world: World) -> None:
    """Its retries took longer than the next occurrence took to fail."""
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.live(HOUR_MS)
    run_window(world.ports, 0, world.clock.at_ms // SECOND_MS)
    newer = world.passed(job_id)
    note_last(world.ports, newer, "dead", world.clock.at_ms)
    older = replace(newer, scheduled_at_ms=newer.scheduled_at_ms - HOUR_MS)
    note_last(world.ports, older, "succeeded", world.clock.at_ms, world.clock.at_ms - 1_000)
    assert registering.get_job(world.ports, job_id).last_success_at_ms == world.clock.at_ms
    world.live(HOUR_MS + 30 * MINUTE_MS)
    assert world.told == []


def test_a_switch_that_a_team_turns_on_later_counts_for_the_jobs_that_are_there(world: World) -> None:
    job_id = world.job(dead_man_switch=None)
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.team(version=1, defaults={"dead_man_switch": "on"})
    for _ in range(2):  # again is a no-op
        reconcile(world.ports)
    assert len(world.deadlines) == 1
    world.live(3 * HOUR_MS)
    assert len(world.told) == 1


# --- together -------------------------------------------------------------------------------------------------


def test_a_hundred_jobs_of_a_team_are_one_message_with_the_worst_three_and_one_recovery(world: World) -> None:
    jobs = [world.job(f"rates-{number:03d}") for number in range(100)]
    world.live(HOUR_MS + 2 * MINUTE_MS, *jobs)
    world.live(3 * HOUR_MS)
    (text,) = world.told
    assert text.startswith("100 jobs of payments are silent; the worst:")
    assert text.count("no success since") == 3
    while world.clock.at_ms // MINUTE_MS % 60 != 1:
        world.live(MINUTE_MS)
    for job_id in jobs:
        world.succeed(job_id)
    world.live(5 * MINUTE_MS)
    (_, over) = world.told
    assert over.startswith("100 jobs of payments succeed again")


# --- people ---------------------------------------------------------------------------------------------------


def silent(world: World, **fields: Any) -> str:
    job_id = world.job(**fields)
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.live(2 * HOUR_MS + 12 * MINUTE_MS)
    assert len(world.told) == 1
    return job_id


def test_it_repeats_until_somebody_acknowledges_it(world: World) -> None:
    job_id = silent(world)
    world.live(8 * HOUR_MS + 5 * MINUTE_MS)
    assert len(world.told) == 3
    status, answer = world.api.call("POST", f"/incidents/{job_id}/acknowledge", {"reason": "ann is at it"})
    assert (status, answer["acknowledged"]["reason"]) == (200, "ann is at it")
    world.live(DAY_MS)
    assert len(world.told) == 3


def test_a_snooze_ends_and_a_recovery_ends_it_before(world: World) -> None:
    job_id = silent(world)
    until = "2026-10-30T08:00:00Z"
    status, _ = world.api.call("POST", f"/incidents/{job_id}/acknowledge", {"reason": "bank holiday", "until": until})
    assert status == 200
    world.live(HOUR_MS)
    count = len(world.told)
    assert count == 1
    world.live(10 * HOUR_MS)
    assert len(world.told) > count


def test_a_second_route_is_told_when_nobody_acknowledges_it(world: World) -> None:
    other = "https://hooks.example.org/payments"
    world.team(("topic", TOPIC), ("webhook", other), version=1)
    silent(world)
    posted = [one for one in world.store.items(TIMERS) if other in str(one.get("work", ""))]
    assert posted == []
    world.live(20 * MINUTE_MS)
    posted = [one for one in world.store.items(TIMERS) if other in str(one.get("work", ""))]
    assert len(posted) == 1
    assert len(world.told) == 2


def test_open_incidents_are_listed_and_there_is_nothing_to_acknowledge_where_none_is(world: World) -> None:
    job_id = silent(world)
    status, page = world.api.call("GET", "/incidents", team="payments")
    (one,) = page["incidents"]
    assert (status, one["job_id"], one["kind"], one["tells"]) == (200, job_id, "silent", 1)
    assert world.api.call("POST", "/incidents/payments:none/acknowledge", {"reason": "x"})[0] == 404
    past = {"reason": "x", "until": "2020-01-01T00:00:00Z"}
    assert world.api.call("POST", f"/incidents/{job_id}/acknowledge", past)[0] == 422


def test_an_acknowledgement_is_in_the_audit_with_who_and_why(world: World) -> None:
    job_id = silent(world)
    world.api.call("POST", f"/incidents/{job_id}/acknowledge", {"reason": "ann is at it"})
    world.api.call("POST", f"/incidents/{job_id}/acknowledge", {"reason": "ann is at it"})
    entries = world.api.call("GET", "/audit", team="payments")[1]["entries"]
    found = [one for one in entries if one["action"] == "incident.acknowledged"]
    assert {one["facts"]["reason"] for one in found if one["facts"]} == {"ann is at it"}
    assert len(found) <= 2  # the begin of the call and its end; again is a no-op


# --- causes ---------------------------------------------------------------------------------------------------


def test_an_endless_pause_is_silence_and_one_with_an_end_stops_the_clock(world: World) -> None:
    forgotten, planned = world.job("forgotten"), world.job("planned")
    world.live(HOUR_MS + 2 * MINUTE_MS, forgotten, planned)
    world.api.call("POST", f"/jobs/{forgotten}/pause", {"reason": "a migration"})
    world.api.call("POST", f"/jobs/{planned}/pause", {"reason": "a release", "until": "2026-10-30T08:00:00Z"})
    world.live(4 * HOUR_MS)
    assert len(world.told) == 1
    assert world.told[0].startswith("payments:forgotten: ")
    assert "it is paused by" in world.told[0]
    assert "a migration" in world.told[0]
    world.live(8 * HOUR_MS)  # and beyond its end nothing runs
    assert any("payments:planned" in text for text in world.told)


def test_an_unreadable_definition_is_told_and_closed_when_it_can_be_read_again(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    key = {"job_id": job_id}
    world.store.commit([Update(JOBS, key, Anyway("it breaks"), set={"tolerance_s": "many"})])
    world.live(3 * HOUR_MS)
    assert "its definition cannot be read" in world.told[0]
    world.store.commit([Update(JOBS, key, Anyway("it is mended"), set={"tolerance_s": 0})])
    world.live(10 * MINUTE_MS)
    assert any("can be read again" in text for text in world.told[1:])


@pytest.mark.parametrize(
    "schedule", [{}, {"cron": 7}, {"cron": None}, {"rate": {"x": 1}}, {"cron": "0 * * * *", "zone": 3}]
)
def test_a_schedule_that_is_wrong_in_any_way_costs_its_own_job_only(world: World, schedule: Any) -> None:
    wrong, other = world.job("a-wrong"), world.job("other")
    world.live(2 * HOUR_MS, wrong, other)
    world.store.commit([Update(JOBS, {"job_id": wrong}, Anyway("it breaks"), set={"schedule": schedule})])
    for _ in range(4 * 60):
        world.clock.at_ms += MINUTE_MS
        with suppress(WorldError):  # that one could not be judged is said; nothing else may end a pass
            world.watch()
    assert any("other" in text for text in world.told)
    assert any("a-wrong" in text for text in world.told)


def test_zone_data_that_is_gone_is_silence_by_what_was_known(world: World) -> None:
    job_id = world.job(schedule={"cron": "0 * * * *", "zone": "Europe/Berlin"})
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    lost = {"cron": "0 * * * *", "zone": "Europe/Atlantis"}
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("it is lost"), set={"schedule": lost})])
    world.live(3 * HOUR_MS)
    assert "no success since" in world.told[0]


def test_a_job_that_is_gone_and_one_that_has_finished_are_told_of_to_nobody(world: World) -> None:
    gone = world.job("gone")
    once = world.job("once", schedule={"at": "2026-10-30T00:30:00Z"})
    world.live(10 * MINUTE_MS)
    world.api.call("DELETE", f"/jobs/{gone}")
    while world.clock.at_ms < 1_793_320_260_000:
        world.live(MINUTE_MS)
    run_window(world.ports, 0, world.clock.at_ms // SECOND_MS)
    job = registering.get_job(world.ports, once)
    key = LedgerKey("main", 0, 0, "payments", "once", job.fired_through_ms)
    note_last(world.ports, key, "succeeded", world.clock.at_ms)
    world.live(DAY_MS)
    assert world.told == []
    assert (world.deadlines, world.open) == ([], [])


def test_the_one_occurrence_that_never_ran_is_told_of(world: World) -> None:
    world.job("once", schedule={"at": "2026-10-30T00:30:00Z"})
    world.live(2 * HOUR_MS)
    assert len(world.told) == 1


def test_a_watchdog_that_was_down_for_hours_tells_within_minutes_of_its_return(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.clock.at_ms += 9 * HOUR_MS
    world.live(5 * MINUTE_MS)
    assert len(world.told) == 1


def test_an_outage_of_everything_that_is_over_is_told_of_and_recovers_once(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.clock.at_ms += 3 * HOUR_MS
    world.live(5 * MINUTE_MS)
    world.succeed(job_id)
    world.live(10 * MINUTE_MS)
    assert len(world.told) == 2
    assert "it has succeeded again" in world.told[1]


def test_the_changes_of_clocks_raise_nothing(world: World) -> None:
    """A month that has the autumn's change in it, in a zone that has one (A12)."""
    job_id = world.job(schedule={"cron": "0 * * * *", "zone": "America/New_York"})
    world.live(4 * DAY_MS, job_id)
    assert world.told == []


# --- what cannot be read --------------------------------------------------------------------------------------


class Broken:
    """A store of which one table cannot be read."""

    def __init__(self, inner: WatchedStore) -> None:
        self.inner, self.tables = inner, set[str]()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        if name not in ("get", "get_many", "query", "query_index", "scan"):
            return call

        def asked(table: Any, *arguments: Any, **named: Any) -> Any:
            if table.name in self.tables:
                raise Throttled(f"{table.name} is busy")
            return call(table, *arguments, **named)

        return asked


def broken(world: World, *tables: str) -> Ports:
    store = Broken(world.store)
    store.tables = set(tables)
    return replace(world.ports, store=store)


def test_what_cannot_be_read_is_unknown_and_judged_again_when_it_can(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    for _ in range(180):
        world.clock.at_ms += MINUTE_MS
        try:
            watching.watch(broken(world, "jobs"))
        except Throttled:
            continue
    assert world.told == []
    assert world.signals.counts["watch.unknown_total"] > 0
    world.succeed(job_id)
    world.live(5 * MINUTE_MS)
    assert world.told == []  # it had succeeded when it could be judged


def test_what_could_not_be_judged_for_hours_is_told_when_it_can(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    for _ in range(180):
        world.clock.at_ms += MINUTE_MS
        with suppress(Throttled):
            watching.watch(broken(world, "jobs"))
    world.live(5 * MINUTE_MS)
    assert len(world.told) == 1


def test_more_time_that_is_given_by_a_change_ends_it(world: World) -> None:
    job_id = silent(world)
    version = registering.get_job(world.ports, job_id).version
    status, _ = world.api.call("PATCH", f"/jobs/{job_id}", {"version": version, "max_silence_s": 864_000})
    assert status == 200
    world.live(5 * MINUTE_MS)
    assert world.open == []
    assert "more time was given to it" in world.told[-1]


def test_a_ledger_that_is_busy_keeps_no_owner_from_hearing(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    for _ in range(180):
        world.clock.at_ms += MINUTE_MS
        watching.watch(broken(world, "timers"))
    assert len(world.told) == 1


# --- crashes and others ---------------------------------------------------------------------------------------


def until_it_is_due(world: World, job_id: str) -> None:
    """Until two minutes before the deadline is reached: each pass before writes its place alone."""
    deadline_ms = registering.get_job(world.ports, job_id).last_success_at_ms + 2 * HOUR_MS + 360 * SECOND_MS
    world.live(deadline_ms - 2 * MINUTE_MS - world.clock.at_ms)
    assert (world.open, world.told) == ([], [])


@pytest.mark.parametrize("after", range(1, 13))
def test_a_crash_after_any_write_loses_no_alarm_and_repeats_none_unheard(after: int) -> None:
    world = World()
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    until_it_is_due(world, job_id)
    world.store.crash_after_commits = after
    _through_crashes(world, 30)
    assert 1 <= len(world.told) <= 2
    assert len(world.open) == 1
    while world.clock.at_ms // MINUTE_MS % 60 != 1:
        _through_crashes(world, 1)
    world.store.crash_after_commits = None
    world.succeed(job_id)
    world.store.crash_after_commits = after
    before = len(world.told)
    _through_crashes(world, 10)
    assert 1 <= len(world.told) - before <= 2
    assert world.open == []
    assert len(world.deadlines) >= 1


def _through_crashes(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.clock.at_ms += MINUTE_MS
        try:
            world.watch()
        except Crash:
            continue


@pytest.mark.parametrize("at", range(1, 16))
def test_two_watchdogs_send_one_message(at: int) -> None:
    """One stands still before its n-th write while the other makes a whole pass."""
    world = World()
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    writes = 0

    def count() -> None:
        nonlocal writes
        writes += 1
        if writes == at:
            world.watch()
        else:
            world.store.before_commit = count

    until_it_is_due(world, job_id)
    world.store.before_commit = count
    world.live(HOUR_MS)
    assert len(world.told) == 1


def test_a_deadline_too_many_is_harmless(world: World) -> None:
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    earlier = replace(registering.get_job(world.ports, job_id), deadline_mark=0)
    for minutes in range(3, 90, 7):
        one = wheel.deadline(earlier, world.clock.at_ms + minutes * MINUTE_MS, 60, world.clock.at_ms)
        world.store.commit([wheel.put(one)])
    world.live(DAY_MS, job_id)
    assert world.told == []
    assert len(world.deadlines) == 1


def test_a_shorter_silence_counts_from_the_change_on(world: World) -> None:
    job_id = world.job(schedule={"cron": "0 2 * * *"})
    status, _ = world.api.call("PATCH", f"/jobs/{job_id}", {"version": 1, "schedule": HOURLY})
    assert status == 200
    world.live(3 * HOUR_MS)
    assert len(world.told) == 1


def test_a_place_of_another_kind_is_told_and_not_guessed_at(world: World) -> None:
    world.store.commit([Put(TEAMS, wheel.PLACE | {"minute": "soon"}, Anyway("it breaks"))])
    with pytest.raises(Exception, match="place"):
        world.watch()


def test_one_incident_that_cannot_be_read_costs_no_other(world: World) -> None:
    garbled = {"cell": incidents.OPEN, "team": "payments#a#silent", "rev": "one"}
    job_id = world.job()
    world.live(HOUR_MS + 2 * MINUTE_MS, job_id)
    world.store.commit([Put(TEAMS, garbled, Anyway("it breaks"))])
    for _ in range(150):
        world.clock.at_ms += MINUTE_MS
        with pytest.raises(Throttled):
            world.watch()
    assert len(world.told) == 1
