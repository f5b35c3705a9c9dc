"""Every route that changes something leaves an entry in the audit, or it is said here why it does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.access.test_matrix import OWN, Stage, api_for, request
from tickwork.api.matrix import WORKERS
from tickwork.api.routing import AnyRoute
from tickwork.api.table import ROUTES
from tickwork.core.access.entries import Entry
from tickwork.core.ledger.tables import AUDIT

NO_ENTRY: Mapping[str, str] = {
    "create_timer": "its record says who created it",
    "cancel_timer": "its record says who cancelled it",
    "preview_schedule": "it changes nothing",
    "plan_defaults": "it changes nothing",
}
CHANGING = [route for route in ROUTES if route.method != "GET"]


def _of_workers(route: AnyRoute) -> bool:
    """What workers tell of runs is in the runs' records."""
    from tickwork.api.matrix import MATRIX

    return MATRIX[route.name].roles == WORKERS


@pytest.mark.parametrize("route", [one for one in CHANGING if not _of_workers(one)], ids=lambda route: route.name)
def test_a_route_that_changes_something_leaves_an_entry_of_its_caller(route: AnyRoute) -> None:
    stage = Stage()
    path, body, query = _prepared(stage, route)
    before = {item["stream"] + item["place"] for item in _entries(stage)}
    api = api_for(stage, "key", "platform")
    status, answer = api.call(route.method, path, body, **query)
    assert status < 300, answer
    gained = [Entry.from_item(item) for item in _entries(stage) if item["stream"] + item["place"] not in before]
    if route.name in NO_ENTRY:
        assert gained == [], NO_ENTRY[route.name]
    else:
        assert gained, "it changed something: write an entry (flows/access/recording.py), or say above why not"
        assert {(entry.actor[:13], entry.role) for entry in gained} == {("key:platform:", "platform")}


def _entries(stage: Stage) -> list[dict[str, object]]:
    items, _ = stage.ports.store.scan(AUDIT, limit=10_000, after=None)
    return [item for item in items if "action" in item]


def _prepared(stage: Stage, route: AnyRoute) -> tuple[str, object, dict[str, str]]:
    """A request of the route that has something to do."""
    path, body, query = request(stage, route, OWN)
    if route.name == "resume_job":
        stage.do("POST", f"/jobs/{stage.things[OWN]['job_id']}/pause", {"reason": "a release"})
    if route.name == "resume_scope":
        stage.do("POST", "/pauses", {"team": OWN, "reason": "a release"})
    if route.name == "unskip_occurrence":
        at = {"scheduled_at": stage.things[OWN]["next"], "reason": "the bank is closed"}
        stage.do("POST", f"/jobs/{stage.things[OWN]['job_id']}/skip", at)
    if route.name == "replay_dead_letters":
        named = {"ref": stage.things[OWN]["ref"]}
        (started,) = stage.do("POST", "/runs:start", {"worker": "w", "runs": [named | {"claim": "12345678"}]})["runs"]
        ended = named | {"token": started["token"], "outcome": "failed_permanent", "error": "no"}
        stage.do("POST", "/runs:complete", {"runs": [ended]})
    if route.name.endswith("_placement") and route.method == "DELETE":
        stage.do("PUT", path, {"cell": "main"})
    if route.name == "delete_team":
        path = "/teams/empty"
        stage.do("PUT", path, {"contact": "ann"})
    if route.name == "adopt_teams":
        body = {"contact": "ann", "dry_run": False, "refuse_unknown": True}
    return path, body, query
