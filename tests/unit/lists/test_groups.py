"""Groups: a label of jobs and timers by which they are listed, and what that costs whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job, create_timer, move, windows
from tickwork.core.ledger.groups import GROUPED, SPREAD
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.ports import Ports


def timers_of(api: ApiUnderTest, limit: int = 200, **query: str) -> list[dict[str, Any]]:
    """All pages of a list of the group's timers."""
    found, cursor = [], ""
    while True:
        more = {"cursor": cursor} if cursor else {}
        status, page = api.call("GET", "/timers", team="payments", group="night", limit=str(limit), **query, **more)
        assert status == 200, page
        found += page["timers"]
        cursor = page["cursor"]
        if not cursor:
            return found


def test_a_groups_timers_are_listed_by_their_time_however_far_ahead_page_by_page(api: ApiUnderTest) -> None:
    delays = [86_400 * 400, 7, 30, 7, 5, 86_400, 7, 3_600]
    for delay_s in delays:
        create_timer(api, delay_s=delay_s, group="night")
    create_timer(api, group="day")
    create_timer(api)
    whole = timers_of(api)
    assert [one["fire_at"] for one in whole] == sorted(one["fire_at"] for one in whole)
    assert len(whole) == len(delays)
    assert {one["group"] for one in whole} == {"night"}
    for limit in (1, 2, 3):
        assert timers_of(api, limit) == whole


def test_a_groups_list_has_its_ended_timers_too_and_can_leave_them_out(api: ApiUnderTest, ports: Ports) -> None:
    _, soon = create_timer(api, group="night")
    _, late = create_timer(api, delay_s=3_600, group="night")
    api.call("DELETE", f"/timers/{late['timer_id']}")
    move(ports, 6)
    windows(ports)
    assert [one["status"] for one in timers_of(api)] == ["queued", "cancelled"]
    assert [one["timer_id"] for one in timers_of(api, status="queued")] == [soon["timer_id"]]
    assert [one["timer_id"] for one in timers_of(api, since=late["fire_at"])] == [late["timer_id"]]
    assert [one["timer_id"] for one in timers_of(api, until=soon["fire_at"])] == [soon["timer_id"]]


def test_a_groups_jobs_are_listed_as_a_change_leaves_them(api: ApiUnderTest) -> None:
    for name in ("b", "a", "c"):
        create_job(api, name, group="night")
    create_job(api, "d")

    def names(group: str) -> list[str]:
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            _, page = api.call("GET", "/jobs", team="payments", group=group, limit="1", **cursor)
            found += [job["name"] for job in page["jobs"]]
            if not page["cursor"]:
                return found
            cursor = {"cursor": page["cursor"]}

    assert names("night") == ["a", "b", "c"]
    assert api.call("PATCH", "/jobs/payments:a", {"version": 1, "group": "day"})[0] == 200
    assert api.call("PATCH", "/jobs/payments:b", {"version": 1, "group": None})[0] == 200
    api.call("DELETE", "/jobs/payments:c")
    assert (names("night"), names("day")) == ([], ["a"])
    _, shown = api.call("GET", "/jobs/payments:a")
    assert shown["group"] == "day"
    assert "group" not in api.call("GET", "/jobs/payments:b")[1]


def test_a_change_of_a_jobs_group_is_one_of_its_pending_occurrence(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, group="night")
    api.call("PATCH", "/jobs/payments:rates", {"version": 1, "group": "day"})
    tables: Any = ports.store
    assert [item["group"] for item in tables.items(TIMERS)] == ["day"]


def test_the_same_request_in_another_group_is_another_request(api: ApiUnderTest) -> None:
    assert create_timer(api, client_key="k", group="night")[0] == 201
    assert create_timer(api, client_key="k", group="night")[0] == 200
    assert create_timer(api, client_key="k", group="day")[0] == 409
    create_job(api, group="night")
    same = {"team": "payments", "name": "rates", "schedule": {"rate": "10 seconds"}, "target": {"pool": "payments"}}
    assert api.call("POST", "/jobs", same | {"overlap": "allow", "group": "night"})[0] == 200
    assert api.call("POST", "/jobs", same | {"overlap": "allow", "group": "day"})[0] == 409


@pytest.mark.parametrize("group", ["", "Night", "a b", "a#b", "x" * 64, "é"])
def test_what_is_no_label_is_refused(api: ApiUnderTest, group: str) -> None:
    assert create_timer(api, group=group)[0] == 422
    assert api.call("GET", "/timers", team="payments", group=group)[0] == 422
    assert api.call("GET", "/jobs", team="payments", group=group)[0] == 422


def test_another_lists_cursor_is_none_of_a_groups(api: ApiUnderTest) -> None:
    for _ in range(3):
        create_timer(api)
        create_timer(api, group="night")
    _, page = api.call("GET", "/timers", team="payments", limit="1")
    assert page["cursor"]
    assert api.call("GET", "/timers", team="payments", group="night", cursor=page["cursor"])[0] == 422
    _, page = api.call("GET", "/timers", team="payments", group="night", limit="1")
    assert api.call("GET", "/timers", team="payments", cursor=page["cursor"])[0] == 422


def test_what_bears_no_label_is_in_no_index_of_groups(api: ApiUnderTest, ports: Ports) -> None:
    create_timer(api)
    create_job(api)
    tables: Any = ports.store
    assert not any({"group", GROUPED} & item.keys() for table in (TIMERS, JOBS) for item in tables.items(table))


def test_a_groups_timers_are_spread_over_the_partitions_of_the_index(api: ApiUnderTest, ports: Ports) -> None:
    for _ in range(100):
        create_timer(api, group="night")
    tables: Any = ports.store
    assert len({item[GROUPED] for item in tables.items(TIMERS)}) == SPREAD
    assert len(timers_of(api)) == 100
