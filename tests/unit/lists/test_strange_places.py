"""Cursors that are not ours, and bounds the wrong way round: refused, or an empty page; never an error of ours.
The store in memory refuses what DynamoDB would."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.fakes import NOW_MS
from tests.unit.lists.stage import TEAM, Stage
from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger.tables import TIMERS
from tickwork.testing.memory import MemoryStore

NOW_S = NOW_MS // 1_000
MINUTE = NOW_S // 60
LONG = "x" * 1_100
PK = f"main#0000#{MINUTE:08d}"
SK = f"{NOW_S}#{TEAM}#nightly#{NOW_S}"
FAR, LONG_AGO = "2160-01-01T00:00:00Z", "1960-01-01T00:00:00Z"


def cursor(*position: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


FORGED = {
    "a kind that there is not": cursor("foo", TEAM),
    "a sort key longer than any": cursor("due", MINUTE, 0, f"{NOW_S}#{LONG}"),
    "a key of no item": cursor("ended", TEAM, TEAM, NOW_S * 1_000, f"{TEAM}#0", "x", "y"),
    "a partition key longer than any": cursor("ended", TEAM, TEAM, NOW_S * 1_000, f"{TEAM}#0", LONG, SK),
    "a key in another minute": cursor("ended", TEAM, TEAM, 5, f"{TEAM}#0", "main#0000#00000001", SK),
    "another team's partition": cursor("ended", TEAM, TEAM, 5, "ops#0", PK, SK),
    "another status's partition": cursor("ended", TEAM, TEAM, 5, f"{TEAM}#skipped#00", PK, SK),
    "true for a number": cursor("due", True, 0, f"{NOW_S}#~"),
    "a number for a text": cursor("due", MINUTE, 0, NOW_S),
    "too few": cursor("due", MINUTE, 0),
    "too many": cursor("due", MINUTE, 0, f"{NOW_S}#~", 0),
    "nothing": cursor(),
    "a deep one": base64.urlsafe_b64encode(b"[" * 5_000).decode(),
    "no base64": "%%%",
    "no JSON": base64.urlsafe_b64encode(b"{").decode(),
    "not UTF-8": base64.urlsafe_b64encode(b"\xff\xfe").decode(),
}
LISTS: dict[str, dict[str, str]] = {
    "/runs": {"team": TEAM},
    "/dead-letters": {"team": TEAM},
    "/timers": {"team": TEAM},
}


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("name", FORGED)
def test_a_cursor_that_no_page_gave_is_refused(path: str, name: str) -> None:
    status, problem = Stage().api.call("GET", path, None, cursor=FORGED[name], **LISTS[path])
    assert (status, problem["errors"][0]["field"]) == (422, "cursor")


@pytest.mark.parametrize("status", ["dead", "cancelled", "expired"])
@pytest.mark.parametrize("name", FORGED)
def test_so_it_is_in_a_list_by_status(status: str, name: str) -> None:
    answer = Stage().api.call("GET", "/runs", None, team=TEAM, status=status, cursor=FORGED[name])
    assert answer[0] == 422, answer


@pytest.mark.parametrize(
    "place",
    [("due", 10**12, 5, f"{NOW_S}#~"), ("due", MINUTE, 10**12, f"{NOW_S}#~"), ("due", MINUTE, 0, "0000000000#")],
)
@pytest.mark.parametrize("path", ["/runs", "/timers"])
def test_a_place_where_nothing_lies_is_gone_on_after(path: str, place: tuple[Any, ...]) -> None:
    stage = Stage()
    stage.timers(3, delay_s=1)
    stage.after(2)
    assert stage.api.call("GET", path, None, cursor=cursor(*place), team=TEAM)[0] == 200


@pytest.mark.parametrize(
    "bounds", [{"since": FAR}, {"until": LONG_AGO}, {"since": FAR, "until": LONG_AGO}, {"since": LONG_AGO}], ids=str
)
@pytest.mark.parametrize("path", ["/runs", "/timers", "/dead-letters", "/runs?dead", "/runs?cancelled", "/jobs"])
def test_any_bounds_are_answered(path: str, bounds: dict[str, str]) -> None:
    stage = Stage()
    job_id = stage.job(seconds=1)
    stage.after(5)
    path, _, status = path.partition("?")
    query = {"team": TEAM} | bounds | ({"status": status} if status else {})
    if path == "/jobs":
        path = f"/jobs/{job_id}/runs"
        query = {"since": bounds.get("since", LONG_AGO)}
    answer = stage.ok("GET", path, None, **query)
    if FAR in bounds.values():
        assert answer["runs" if path != "/timers" else "timers"] == []


@pytest.mark.parametrize("since", ["2026-10-30T00:00:04Z", "2026-10-30T00:00:09Z", FAR])
def test_a_list_of_a_jobs_runs_goes_on_though_its_bound_has_passed_its_cursor(since: str) -> None:
    """A client that asks for the last hour says another `since` with each page."""
    stage = Stage()
    job_id = stage.job(seconds=1)
    for _ in range(6):
        stage.after(1)
    page = stage.ok("GET", f"/jobs/{job_id}/runs", None, limit="2")
    again = stage.ok("GET", f"/jobs/{job_id}/runs", None, limit="2", cursor=page["cursor"], since=since)
    shown = [one["scheduled_at"] for one in again["runs"]]
    assert shown == (["2026-10-30T00:00:05Z", "2026-10-30T00:00:04Z"] if "04Z" in since else [])


@pytest.mark.parametrize(
    ("first", "last", "after"), [("b", "a", None), ("a", "b", "c"), ("b", "c", "a"), ("a", LONG, None)]
)
def test_the_store_in_memory_refuses_what_dynamodb_would(first: str, last: str, after: str | None) -> None:
    with pytest.raises(InvariantViolated):
        MemoryStore().query(TIMERS, PK, first, last, limit=1, after=after)
