"""The platform's defaults by version (P4): who goes by which, what an occurrence keeps, and the way back (W13)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import NOW_MS, FakeClock
from tests.support.http import ApiUnderTest
from tests.support.worlds import job_item, make_world, move
from tests.unit.api.test_jobs_and_timers import complete, ready, start, windows
from tickwork.core.errors import Throttled
from tickwork.core.jobs import defaults
from tickwork.core.jobs.defaults import (
    BEFORE,
    BUILT_IN,
    DEFAULTS,
    NAMED_MAX,
    VERSIONS_MAX,
    Defaults,
    Version,
    part_of,
)
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TEAMS, TIMERS
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import rolling_out
from tickwork.flows.ledger import platform_defaults
from tickwork.flows.ledger.platform_defaults import KEY
from tickwork.flows.ledger.remembered import TRUSTED_MS
from tickwork.ports import Ports

JOB: dict[str, Any] = {
    "team": "payments",
    "name": "rates",
    "schedule": {"rate": "10 minutes", "anchor": "2026-10-29T00:00:00Z"},
    "target": {"pool": "payments"},
}
OWN = {"retry_policy": {"max_attempts": 5}, "tolerance_s": 300, "overlap": "skip", "catch_up": {"policy": "latest"}}
"""Each as it would be anyway."""
OTHER: dict[str, Any] = {
    "retry_policy": {"max_attempts": 2, "base_s": 1, "jitter_percent": 0},
    "tolerance_s": 60,
    "overlap": "allow",
    "catch_up": {"policy": "all"},
}
HOURLY = {"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z", "zone": "UTC"}
FOLLOWED = ("retry_policy", "tolerance_s", "overlap", "catch_up")


def create(api: ApiUnderTest, **changes: Any) -> dict[str, Any]:
    status, job = api.call("POST", "/jobs", JOB | changes)
    assert status in (200, 201), job
    return job


def shown(api: ApiUnderTest, name: str = "rates") -> dict[str, Any]:
    return api.call("GET", f"/jobs/payments:{name}")[1]


def publish(api: ApiUnderTest, **policies: Any) -> dict[str, Any]:
    edition = api.call("GET", "/defaults")[1]["edition"]
    status, answer = api.call("POST", "/defaults", {"edition": edition, "reason": "a try"} | (policies or OTHER))
    assert status == 200, answer
    return answer


def roll_out(api: ApiUnderTest, version: int = 2, percent: int = 100, teams: tuple[str, ...] = ()) -> dict[str, Any]:
    body = {"version": version, "percent": percent, "teams": list(teams), "reason": "a try"}
    status, answer = api.call("POST", "/defaults:roll-out", body | {"edition": _edition(api)})
    assert status == 200, answer
    return answer


def _edition(api: ApiUnderTest) -> int:
    return int(api.call("GET", "/defaults")[1]["edition"])


def later(ports: Ports, seconds: float) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.at_ms += int(seconds * 1000)


def occurrences(ports: Ports, name: str = "rates") -> list[dict[str, Any]]:
    items, _ = ports.store.scan(TIMERS, limit=1_000, after=None)
    mine = [item for item in items if item.get("job_id") == f"payments:{name}"]
    return sorted(mine, key=lambda item: item["scheduled_at_ms"])


def before_defaults(ports: Ports, name: str = "rates") -> None:
    """The job as a version has stored it that knew of no defaults: it allows both, and notes nothing."""
    update = Update(
        JOBS, {"job_id": f"payments:{name}"}, Anyway("a test"), remove=("defaults_base", "own_policies", "overlap")
    )
    ports.store.commit([update])


# --- whose a policy is ------------------------------------------------------------------------------------------


def test_a_job_that_says_nothing_shows_each_policy_as_the_defaults(api: ApiUnderTest) -> None:
    job = create(api)
    assert job["policies"] == dict.fromkeys(FOLLOWED, "default@1")
    assert (job["overlap"], job["tolerance_s"], job["retry_policy"]["max_attempts"]) == ("skip", 300, 5)


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_a_job_says_is_its_own_also_where_it_is_as_the_defaults_are(api: ApiUnderTest, name: str) -> None:
    create(api, **{name: OWN[name]})
    publish(api)
    roll_out(api)
    job = shown(api)
    assert job["policies"] == dict.fromkeys(FOLLOWED, "default@2") | {name: "own"}
    assert [one for one in FOLLOWED if job[one] != shown_as(name, one)] == []


def shown_as(own: str, name: str) -> Any:
    policies = {one: (OWN if one == own else OTHER)[one] for one in FOLLOWED}
    retry = {"max_attempts": 5, "base_s": 30, "cap_s": 3600, "jitter_percent": 20, "no_retry_on": [], "retry_on": []}
    return (policies | {"retry_policy": retry | policies["retry_policy"]})[name]


def test_a_policy_that_is_sent_back_as_it_is_shown_goes_on_following(api: ApiUnderTest) -> None:
    create(api)
    publish(api)
    roll_out(api)
    job = shown(api)
    same = {name: job[name] for name in FOLLOWED} | {"version": 1}
    status, answer = api.call("PATCH", "/jobs/payments:rates", same)
    assert (status, answer["changed"], answer["policies"]) == (200, False, dict.fromkeys(FOLLOWED, "default@2"))


def test_a_part_of_a_policy_is_changed_in_what_its_owner_has_seen_and_is_then_all_his(api: ApiUnderTest) -> None:
    create(api)
    publish(api)
    roll_out(api)
    change = {"version": 1, "retry_policy": {"cap_s": 900}}
    _, job = api.call("PATCH", "/jobs/payments:rates", change)
    assert (job["retry_policy"]["max_attempts"], job["retry_policy"]["cap_s"]) == (2, 900)
    assert job["policies"] == dict.fromkeys(FOLLOWED, "default@2") | {"retry_policy": "own"}
    status, again = api.call("PATCH", "/jobs/payments:rates", change)
    assert (status, again["version"]) == (200, 2), "a repeat is known, although the version has moved"
    roll_out(api, percent=0)
    assert shown(api)["retry_policy"] == job["retry_policy"]
    assert shown(api)["overlap"] == "skip"


def test_null_has_a_policy_follow_again(api: ApiUnderTest) -> None:
    create(api, overlap="allow", tolerance_s=7)
    _, job = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "overlap": None, "tolerance_s": None})
    assert job["policies"] == dict.fromkeys(FOLLOWED, "default@1")
    assert (job["overlap"], job["tolerance_s"]) == ("skip", 300)


def test_a_change_of_something_else_leaves_what_follows_following(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    publish(api)
    roll_out(api)
    _, job = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})
    assert job["policies"] == dict.fromkeys(FOLLOWED, "default@2")
    item = ports.store.get(JOBS, {"job_id": "payments:rates"})
    assert item is not None
    assert (item["overlap"], item["tolerance_s"], "retry" in item["work"]) == ("skip", 300, False), "as registered"


def test_what_a_job_becomes_that_recurs_from_now_on_follows_that_too(api: ApiUnderTest) -> None:
    once = create(api, schedule={"at": "2026-10-30T05:00:00Z"})
    assert (once["overlap"], once["tolerance_s"]) == ("allow", 0)
    _, job = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "schedule": JOB["schedule"]})
    assert (job["overlap"], job["tolerance_s"], job["policies"]["overlap"]) == ("skip", 300, "default@1")


# --- who goes by which ------------------------------------------------------------------------------------------


def test_jobs_from_before_there_were_versions_keep_what_they_have_until_somebody_rolls_out_another(
    api: ApiUnderTest, ports: Ports
) -> None:
    create(api)
    before_defaults(ports)
    job = shown(api)
    assert (job["overlap"], job["policies"]) == ("allow", dict.fromkeys(FOLLOWED, "default@0"))
    roll_out(api, BUILT_IN, teams=("payments",), percent=0)
    job = shown(api)
    assert (job["overlap"], job["policies"]) == ("skip", dict.fromkeys(FOLLOWED, "default@1"))
    roll_out(api, BUILT_IN, percent=0)
    assert shown(api)["overlap"] == "allow"


def test_what_a_job_from_before_says_otherwise_was_its_owners_word(api: ApiUnderTest, ports: Ports) -> None:
    create(api, retry_policy={"max_attempts": 9})
    before_defaults(ports)
    publish(api)
    roll_out(api)
    job = shown(api)
    assert (job["retry_policy"]["max_attempts"], job["policies"]["retry_policy"]) == (9, "own")
    assert (job["tolerance_s"], job["policies"]["tolerance_s"]) == (60, "default@2")


def test_a_roll_out_takes_the_same_jobs_first_whenever_it_is_widened() -> None:
    names = [f"payments:job-{n}" for n in range(2_000)]
    document = replace(DEFAULTS, versions=(*DEFAULTS.versions, Version()))
    covered: set[str] = set()
    for percent in (0, 1, 10, 50, 99, 100):
        wider = {name for name in names if document.rolled_out(2, percent, ()).versions[2].covers(name, "payments")}
        assert covered <= wider
        assert abs(len(wider) - 20 * percent) < 100
        covered = wider
    assert covered == set(names)
    assert part_of("payments:card-settlement") == 99, "in this part for ever"


def test_the_newest_version_that_covers_a_job_counts_and_a_pin_before_all() -> None:
    job = Job("payments", "rates", HOURLY, Work("p", "h"), defaults_base=1)
    document = replace(DEFAULTS, versions=(*DEFAULTS.versions, Version(percent=100), Version(teams=("payments",))))
    assert document.version_of(job) == 3
    assert document.rolled_out(3, 0, ()).version_of(job) == 2
    assert document.rolled_out(3, 0, ()).rolled_out(2, 0, ()).version_of(job) == 1
    assert document.version_of(replace(job, defaults_pin=BEFORE)) == BEFORE
    assert document.version_of(replace(job, defaults_pin=2)) == 2
    assert document.version_of(replace(job, defaults_pin=9)) == 3, "one that is not known pins nothing"
    assert document.rolled_out(0, 100, ()).version_of(job) == 3


def test_a_pinned_job_goes_by_its_version_whatever_is_rolled_out(api: ApiUnderTest) -> None:
    publish(api)
    job = create(api, defaults_version=2)
    assert (job["overlap"], job["defaults_version"], job["policies"]["overlap"]) == ("allow", 2, "default@2")
    roll_out(api, percent=0)
    assert shown(api)["overlap"] == "allow"
    _, job = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "defaults_version": None})
    assert (job["overlap"], "defaults_version" in job) == ("skip", False)
    status, problem = api.call("PATCH", "/jobs/payments:rates", {"version": 2, "defaults_version": 3})
    assert (status, problem["errors"][0]["field"]) == (422, "defaults_version")
    assert api.call("POST", "/jobs", JOB | {"name": "other", "defaults_version": 3})[0] == 422


def test_a_pin_counts_for_the_pending_occurrence_too(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0)
    publish(api)
    api.call("PATCH", "/jobs/payments:rates", {"version": 1, "defaults_version": 2})
    assert [item.get("defaults") for item in occurrences(ports)] == [2]
    api.call("PATCH", "/jobs/payments:rates", {"version": 2, "defaults_version": None})
    assert [item.get("defaults") for item in occurrences(ports)] == [None]


# --- what an occurrence keeps -----------------------------------------------------------------------------------


def test_a_roll_out_counts_from_the_next_occurrence_on_and_writes_no_job(api: ApiUnderTest, ports: Ports) -> None:
    create(api, name="rates")
    publish(api)
    jobs_before = ports.store.scan(JOBS, limit=10, after=None)
    roll_out(api)
    assert ports.store.scan(JOBS, limit=10, after=None) == jobs_before
    assert [item.get("defaults") for item in occurrences(ports)] == [None]
    later(ports, 900)
    windows(ports)
    fired, upcoming = occurrences(ports)
    assert (fired.get("defaults"), upcoming["defaults"]) == (None, 2)
    offset_s = int(upcoming["sk"][:10]) - upcoming["scheduled_at_ms"] // 1000
    assert 0 <= offset_s < 60, "its place is within the tolerance that was rolled out"


def test_attempts_and_replays_keep_what_their_occurrence_was_planned_by(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x", overlap="allow")
    publish(api)
    roll_out(api)
    later(ports, 600)
    windows(ports)  # planned before: five attempts; the next one has two
    roll_out(api, percent=0)
    later(ports, 600)
    windows(ports)
    ends = {}
    for message in ready(ports):
        token = start(api, message)["token"]
        answer = complete(api, message["ref"], token, "failed", "no")
        ends[message["scheduled_at"]] = answer
    first, second = sorted(ends)
    assert (ends[first]["status"], ends[second]["status"]) == ("waiting", "waiting")
    later(ports, 5)
    windows(ports)
    message = ready(ports)[-1]
    assert (message["scheduled_at"], message["attempt"]) == (second, 2), "the wait is of its version, too"
    assert complete(api, message["ref"], start(api, message)["token"], "failed", "no")["status"] == "dead"
    run = api.call("GET", f"/runs/{message['job_id']}@{message['scheduled_at']}")[1]
    assert run["defaults_version"] == 2
    filtered = {"team": "payments", "filter": {}, "reason": "mended"}
    assert api.call("POST", "/dead-letters:replay", filtered)[0] == 200
    later(ports, 60)
    windows(ports)
    again = ready(ports)[-1]
    assert again["scheduled_at"] == second
    answer = complete(api, again["ref"], start(api, again, "claim-0003")["token"], "failed", "no")
    assert answer["status"] == "waiting", "two attempts of its own since the replay"


def test_what_becomes_of_an_occurrence_is_decided_by_what_it_was_planned_by(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x")  # skips what is held up
    publish(api)
    roll_out(api)
    for _ in range(3):
        later(ports, 600)
        windows(ports)
    statuses = [(item["status"], item.get("defaults")) for item in occurrences(ports)]
    assert statuses == [("pending", None), ("pending", 2), ("pending", 2), ("pending", 2)], "allowed from then on"
    roll_out(api, percent=0)
    for _ in range(2):
        later(ports, 600)
        windows(ports)
    statuses = [(item["status"], item.get("defaults")) for item in occurrences(ports)]
    assert statuses[3:] == [("pending", 2), ("skipped", None), ("pending", None)], (
        "and held up again after the way back"
    )


def test_after_an_outage_each_is_missed_or_not_by_what_it_was_planned_by(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x", overlap="allow")
    publish(api, catch_up={"policy": "all"})
    roll_out(api)
    later(ports, 600)
    windows(ports)
    later(ports, 3_000)
    for _ in range(5):
        windows(ports)
    assert {item["status"] for item in occurrences(ports)} == {"pending"}
    assert len(ready(ports)) == 6


def test_a_replay_under_defaults_that_allow_both_is_seen_when_they_do_so_no_more(
    api: ApiUnderTest, ports: Ports
) -> None:
    create(api, tolerance_s=0, exact_reason="x", retry_policy={"max_attempts": 1})
    later(ports, 600)
    windows(ports)
    dead = ready(ports)[-1]
    complete(api, dead["ref"], start(api, dead)["token"], "failed", "no")
    later(ports, 600)
    windows(ports)  # skips: the dead one holds nothing, and the job notes who does
    done = ready(ports)[-1]
    complete(api, done["ref"], start(api, done)["token"])
    publish(api, overlap="allow")
    roll_out(api)
    api.call("POST", "/dead-letters:replay", {"team": "payments", "filter": {}, "reason": "mended"})
    later(ports, 30)
    windows(ports)
    again = ready(ports)[-1]
    assert again["ref"] == dead["ref"]
    start(api, again, "claim-0004")
    roll_out(api, percent=0)
    later(ports, 570)
    windows(ports)
    assert occurrences(ports)[2]["status"] == "skipped"
    assert occurrences(ports)[2]["held_by"]["occurrence"] == occurrences_name(dead)


def occurrences_name(message: dict[str, Any]) -> str:
    return f"{message['job_id']}@{message['scheduled_at']}"


# --- processes that know something else -------------------------------------------------------------------------


def test_a_process_plans_by_what_it_knows_for_half_a_minute_and_says_so(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    other = replace(ports, registry={})
    platform_defaults.in_force(other)
    publish(api)
    roll_out(api)
    (job,) = platform_defaults.applied(other, [_job(ports)])
    assert job.goes_by == 1
    later(ports, TRUSTED_MS / 1000)
    (job,) = platform_defaults.applied(other, [_job(ports)])
    assert job.goes_by == 2


def _job(ports: Ports) -> Job:
    item = ports.store.get(JOBS, {"job_id": "payments:rates"})
    assert item is not None
    return Job.from_item(item)


def test_a_version_that_a_process_does_not_know_yet_is_looked_up(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x")
    old = replace(ports, registry={})
    platform_defaults.in_force(old)
    publish(api)
    later(ports, 600)
    roll_out(api)
    windows(ports)
    later(ports, 600)
    old.registry[KEY["cell"], KEY["team"]] = replace(
        old.registry[KEY["cell"], KEY["team"]], asked_at_ms=ports.clock.monotonic_ms()
    )
    windows(old)
    assert [item["status"] for item in occurrences(ports)][:2] == ["pending", "pending"], "allowed, as it was planned"


class _BusyTeams:
    """A store whose table of teams is busy."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_many(self, table: Any, keys: Any) -> Any:
        if table is TEAMS:
            raise Throttled("busy")
        return self._store.get_many(table, keys)


def test_while_the_table_is_busy_what_was_known_goes_on_counting(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    publish(api)
    roll_out(api)
    busy = replace(ports, store=_BusyTeams(ports.store))
    later(ports, 900)
    windows(busy)
    assert occurrences(ports)[-1]["defaults"] == 2
    assert len(ready(ports)) == 1


def test_who_knows_nothing_yet_plans_as_registered_and_leaves_what_another_version_planned(
    api: ApiUnderTest, ports: Ports
) -> None:
    create(api, tolerance_s=0, exact_reason="x")
    publish(api)
    busy = replace(ports, store=_BusyTeams(ports.store), registry={})
    later(ports, 600)
    windows(busy)
    assert (len(ready(ports)), occurrences(ports)[-1].get("defaults")) == (1, None)
    roll_out(api)
    later(ports, 600)
    windows(ports)
    later(ports, 600)
    windows(replace(busy, registry={}))
    assert len(ready(ports)) == 1, "the first still holds the second; the third was planned by version 2, and waits"
    assert occurrences(ports)[-1]["defaults"] == 2
    later(ports, 60)
    windows(ports)
    assert len(ready(ports)) == 2, "it was set aside, not lost"


def test_a_document_of_a_newer_version_has_jobs_go_as_they_were_registered(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x")
    ports.store.commit([Update(TEAMS, KEY, Anyway("a test"), set={"versions": "elsewhere", "edition": 3})])
    ports.registry.clear()
    later(ports, 600)
    windows(ports)
    assert len(ready(ports)) == 1
    assert shown(api)["policies"]["overlap"] == "default@1"


def test_a_process_of_an_earlier_version_changes_a_job_and_no_word_of_its_owner_is_lost() -> None:
    job = Job("payments", "rates", HOURLY, Work("p", "h", retry=RetryPolicy(9)), defaults_base=1)
    assert defaults.RETRY not in defaults.following(job, 1), "it has stored nine attempts, and noted nothing of it"
    document = replace(DEFAULTS, versions=(*DEFAULTS.versions, Version(retry=RetryPolicy(2), percent=100)))
    assert defaults.by_version(document, job, 2).work.retry == RetryPolicy(9)


def test_a_job_is_written_as_it_was_registered_however_it_stands() -> None:
    job = Job("payments", "rates", HOURLY, Work("p", "h"), 300, overlap="skip", defaults_base=1)
    version = Version(retry=RetryPolicy(2), tolerance_s=7, overlap="allow", catch_up=CatchUp("all"), percent=100)
    document = replace(DEFAULTS, versions=(*DEFAULTS.versions, version))
    other = defaults.by_version(document, job, 2)
    assert (other.work.retry, other.tolerance_s, other.overlap, other.catch_up.policy, other.goes_by) == (
        RetryPolicy(2),
        7,
        "allow",
        "all",
        2,
    )
    assert other.to_item() == job.to_item()
    assert other.as_stored() == job
    due = defaults.as_due(document, other, 1)
    assert (due.overlap, due.tolerance_s, due.goes_by) == ("skip", 7, 2), "decided as planned, planned as in force"
    assert due.to_item() == job.to_item()


# --- publishing and rolling out ---------------------------------------------------------------------------------


def test_a_version_is_made_of_the_newest_and_nobody_goes_by_it_yet(api: ApiUnderTest) -> None:
    create(api)
    first = publish(api, tolerance_s=60)
    second = publish(api, overlap="allow")
    assert [one["version"] for one in second["versions"]] == [0, 1, 2, 3]
    assert (second["versions"][3]["tolerance_s"], second["versions"][3]["overlap"]) == (60, "allow")
    assert first["versions"][2] == second["versions"][2]
    assert shown(api)["policies"]["overlap"] == "default@1"


def test_two_people_never_overwrite_each_other_unseen(api: ApiUnderTest) -> None:
    publish(api)
    body = {"edition": 0, "reason": "another", "tolerance_s": 9}
    assert api.call("POST", "/defaults", body)[0] == 412
    coverage = {"version": 2, "percent": 50, "reason": "on"}
    assert api.call("POST", "/defaults:roll-out", coverage | {"edition": 0})[0] == 412
    assert api.call("POST", "/defaults:roll-out", coverage | {"edition": 1, "version": 3})[0] == 422
    assert _edition(api) == 1


def test_a_request_whose_answer_was_lost_is_known_again(api: ApiUnderTest) -> None:
    body = {"edition": 0, "reason": "a try", "tolerance_s": 9}
    first = api.call("POST", "/defaults", body)
    assert api.call("POST", "/defaults", body) == first
    coverage = {"version": 2, "percent": 50, "reason": "on", "edition": 1}
    first = api.call("POST", "/defaults:roll-out", coverage)
    assert api.call("POST", "/defaults:roll-out", coverage) == first
    assert _edition(api) == 2


def test_somebody_between_the_read_and_the_write_is_told_of(api: ApiUnderTest, ports: Ports) -> None:
    publish(api)
    standing = rolling_out.read_defaults(ports)

    class Between:
        def __init__(self, store: Any) -> None:
            self.store, self.came = store, False

        def __getattr__(self, name: str) -> Any:
            return getattr(self.store, name)

        def commit(self, writes: Any) -> Any:
            if not self.came:
                self.came = True
                rolling_out.roll_out(ports, standing.edition, 2, 5, (), "first")
            return self.store.commit(writes)

    with pytest.raises(rolling_out.VersionConflict):
        rolling_out.roll_out(replace(ports, store=Between(ports.store)), standing.edition, 2, 50, (), "second")
    assert rolling_out.read_defaults(ports).versions[2].percent == 5


def test_each_change_of_the_defaults_leaves_an_entry_with_its_reason(api: ApiUnderTest) -> None:
    publish(api)
    roll_out(api, percent=10)
    _, page = api.call("GET", "/audit", team="platform", object="rule:platform-defaults")
    actions = [(one["action"], one["facts"]["reason"]) for one in page["entries"]]
    assert actions == [("defaults.rolled_out", "a try"), ("defaults.published", "a try")]
    assert {"field": "2.percent", "before": None, "after": 10} in page["entries"][0]["changes"]
    assert api.call("GET", "/audit:verify", team="platform")[1]["findings"] == []


def test_a_plan_says_who_would_change_in_what_and_writes_nothing(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    create(api, name="own", **OWN)
    create(api, name="pinned", defaults_version=1)
    create(api, name="gone")
    api.call("DELETE", "/jobs/payments:gone")
    api.call("POST", "/jobs", JOB | {"team": "shop"})
    publish(api)
    before = [ports.store.scan(table, limit=100, after=None) for table in (JOBS, TEAMS, TIMERS)]
    status, plan = api.call("POST", "/defaults:plan", {"version": 2, "teams": ["payments"]})
    assert status == 200, plan
    assert [one["job_id"] for one in plan["jobs"]] == ["payments:rates"]
    turned = plan["jobs"][0]
    assert (turned["before"], turned["after"], turned["policies"]) == (1, 2, [*FOLLOWED])
    assert turned["from_after"] == shown(api)["next"]["scheduled_at"]
    assert (plan["looked_at"], plan["same"], plan["by_team"], plan["cursor"]) == (5, 1, {"payments": 1}, None)
    assert [ports.store.scan(table, limit=100, after=None) for table in (JOBS, TEAMS, TIMERS)] == before
    roll_out(api, percent=0, teams=("payments",))
    _, back = api.call("POST", "/defaults:plan", {"version": 2})
    assert [(one["job_id"], one["before"], one["after"]) for one in back["jobs"]] == [("payments:rates", 2, 1)]


@pytest.mark.parametrize("path", ["/defaults:plan", "/defaults:roll-out"])
@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"version": 2, "teams": ["payments", "paymnets"]}, 404, "teams"),
        ({"version": 0, "percent": 100}, 422, "version"),
        ({"version": 0, "teams": ["payments"]}, 422, "version"),
    ],
)
def test_a_roll_out_by_which_nobody_would_go_is_refused(
    api: ApiUnderTest, path: str, asked: dict[str, Any], status: int, field: str
) -> None:
    create(api)
    publish(api)
    more = {} if path.endswith("plan") else {"edition": 1, "reason": "a try"}
    found, problem = api.call("POST", path, asked | more)
    assert (found, problem["errors"][0]["field"]) == (status, field)
    assert _edition(api) == 1


def test_the_document_stays_an_item_whoever_is_named(api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    create(api)
    for name in ("shop", "web"):
        api.call("POST", "/jobs", JOB | {"team": name})
    publish(api)
    publish(api, tolerance_s=9)
    monkeypatch.setattr(rolling_out, "NAMED_MAX", 3)
    roll_out(api, 2, 0, ("payments", "shop"))
    more = {"version": 3, "teams": ["payments", "shop"]}
    status, problem = api.call("POST", "/defaults:roll-out", more | {"edition": 3, "reason": "a try"})
    assert (status, problem["errors"][0]["field"]) == (422, "teams")
    roll_out(api, 3, 0, ("web",))
    monkeypatch.setattr(rolling_out, "NAMED_MAX", 2)
    roll_out(api, 3, 5, ("shop",))
    named = [f"{'n' * 36}{number:04d}" for number in range(NAMED_MAX)]
    largest = Defaults(versions=tuple(Version(reason="r" * 200, by="b" * 80) for _ in range(VERSIONS_MAX)))
    whole = json.dumps(largest.rolled_out(0, 100, named).to_item())
    assert len(whole) < 300_000


def test_a_team_that_is_gone_stays_in_a_roll_out_that_is_widened(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    publish(api)
    roll_out(api, percent=0, teams=("payments",))
    for table, key in ((JOBS, {"job_id": "payments:rates"}), (TEAMS, {"cell": "@seen", "team": "payments"})):
        ports.store.remove(table, key)  # type: ignore[attr-defined]
    roll_out(api, percent=5, teams=("payments",))


def test_a_plan_over_many_jobs_goes_on_where_it_was(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        create(api, name=f"job-{number}")
    publish(api)
    monkeypatch.setattr(rolling_out, "PLANNED_MAX", 3)
    monkeypatch.setattr(rolling_out, "_PAGE", 3)
    names: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        _, page = api.call("POST", "/defaults:plan", {"version": 2, "percent": 100, "cursor": cursor})
        names += [one["job_id"] for one in page["jobs"]]
        cursor = page["cursor"]
    assert (sorted(names), cursor) == ([f"payments:job-{n}" for n in range(7)], None)
    assert api.call("POST", "/defaults:plan", {"version": 2, "cursor": "bm9uc2Vuc2U"})[0] == 422


def test_there_is_an_end_to_versions(api: ApiUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_out, "VERSIONS_MAX", 3)
    publish(api)
    status, problem = api.call("POST", "/defaults", {"edition": 1, "reason": "one more", "tolerance_s": 9})
    assert (status, "roll out" in problem["errors"][0]["remedy"]) == (422, True)


def test_the_reconciler_plans_by_what_is_in_force(api: ApiUnderTest, ports: Ports) -> None:
    create(api)
    publish(api)
    roll_out(api)
    (pending,) = occurrences(ports)
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("a test"), set={"planned_with": "older"})])
    reconcile(ports)
    assert len(occurrences(ports)) == 1
    assert occurrences(ports)[0]["scheduled_at_ms"] == pending["scheduled_at_ms"]


def test_the_small_world_of_scenarios_notes_no_version_where_none_is_rolled_out() -> None:
    ports, tables = make_world()
    from tests.support.worlds import create_job, every

    create_job(ports, every(10))
    move(ports, 10)
    assert job_item(tables)["defaults_base"] == 1


# --- what waits -------------------------------------------------------------------------------------------------


def buffering(api: ApiUnderTest, ports: Ports) -> None:
    """A job whose second occurrence waits for the first, by a version that has one wait."""
    create(api, tolerance_s=0, exact_reason="x")
    standing = rolling_out.read_defaults(ports)
    rolling_out.publish(ports, standing.edition, Version(overlap="buffer_one"), "ops", "a try")
    roll_out(api)
    later(ports, 600)
    windows(ports)
    later(ports, 600)
    windows(ports)
    assert [item["status"] for item in occurrences(ports)] == ["pending", "buffered", "pending"]


def test_what_waits_goes_on_waiting_when_the_defaults_would_skip_it_by_now(api: ApiUnderTest, ports: Ports) -> None:
    buffering(api, ports)
    roll_out(api, percent=0)
    later(ports, 120)
    windows(ports)
    assert occurrences(ports)[1]["status"] == "buffered"
    (first,) = ready(ports)
    complete(api, first["ref"], start(api, first)["token"])
    assert len(ready(ports)) == 2, "and is let go when its job is free"


def test_nobody_need_wait_any_more_when_the_defaults_allow_both(api: ApiUnderTest, ports: Ports) -> None:
    buffering(api, ports)
    publish(api, overlap="allow")
    roll_out(api, 3)
    later(ports, 60)
    windows(ports)
    assert occurrences(ports)[1]["status"] == "pending"
    assert len(ready(ports)) == 2


# --- found by planting bugs -------------------------------------------------------------------------------------


def test_a_percentage_covers_just_so_many_parts_of_a_hundred() -> None:
    part = part_of("payments:rates")
    assert not Version(percent=part).covers("payments:rates", "payments")
    assert Version(percent=part + 1).covers("payments:rates", "payments")


def test_the_way_back_comes_before_an_outage_is_over_and_what_was_planned_keeps_its_catch_up(
    api: ApiUnderTest, ports: Ports
) -> None:
    create(api, tolerance_s=0, exact_reason="x", overlap="allow")
    publish(api, catch_up={"policy": "none"})
    roll_out(api)
    later(ports, 600)
    windows(ports)
    roll_out(api, percent=0)
    later(ports, 900)
    for _ in range(3):
        windows(ports)
    statuses = [(item["status"], item.get("defaults")) for item in occurrences(ports)]
    assert statuses == [("pending", None), ("skipped", 2), ("pending", None)], "missed, and none is made up for"


def test_a_retry_policy_of_its_own_counts_whatever_an_occurrence_was_planned_by(
    api: ApiUnderTest, ports: Ports
) -> None:
    create(api, tolerance_s=0, exact_reason="x", overlap="allow", retry_policy={"max_attempts": 7})
    publish(api, retry_policy={"max_attempts": 1}, catch_up={"policy": "all"})
    roll_out(api)
    for _ in range(2):
        later(ports, 600)
        windows(ports)
    assert occurrences(ports)[1]["defaults"] == 2
    message = ready(ports)[-1]
    assert complete(api, message["ref"], start(api, message)["token"], "failed", "no")["status"] == "waiting"


def test_what_an_occurrence_does_that_says_no_version_is_what_its_job_was_registered_with() -> None:
    job = Job("payments", "rates", HOURLY, Work("p", "h"), 300, overlap="skip", defaults_base=1)
    document = replace(DEFAULTS, versions=(*DEFAULTS.versions, Version(retry=RetryPolicy(2))))
    ports, _ = make_world()
    run = Run(LedgerKey("main", 0, NOW_MS, "payments", "rates", NOW_MS))
    assert platform_defaults.work_by(ports, defaults.by_version(document, job, 2), run).retry == RetryPolicy()


def test_the_audit_tells_of_no_policy_that_nobody_has_changed(api: ApiUnderTest) -> None:
    create(api)
    publish(api)
    roll_out(api)
    api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})
    _, page = api.call("GET", "/audit", team="payments", object="job:rates")
    assert [one["field"] for one in page["entries"][0]["changes"]] == ["lease_s"]


def test_a_replay_goes_by_what_is_in_force(api: ApiUnderTest, ports: Ports) -> None:
    create(api, tolerance_s=0, exact_reason="x", retry_policy={"max_attempts": 1})
    later(ports, 600)
    windows(ports)
    dead = ready(ports)[-1]
    complete(api, dead["ref"], start(api, dead)["token"], "failed", "no")
    later(ports, 600)
    windows(ports)
    start(api, ready(ports)[-1], "claim-0005")  # it runs, and holds the job
    assert refusal(api) == "held"
    publish(api, overlap="allow")
    roll_out(api)
    assert refusal(api) is None


def refusal(api: ApiUnderTest) -> str | None:
    """Why the one dead letter is not replayed; None when it is."""
    _, answer = api.call("POST", "/dead-letters:replay", {"team": "payments", "filter": {}, "reason": "mended"})
    (run,) = answer["runs"]
    return None if run["replayed"] else str(run["reason"])
