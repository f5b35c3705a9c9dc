"""A calendar that excludes everything parks the jobs that name it, and no others, until it is mended."""

from __future__ import annotations

from tests.support.worlds import create_job, every, job_item, make_world, move, sent_refs, serve
from tickwork.core.jobs.occurrences import ALL_EXCLUDED
from tickwork.core.ledger.tables import CALENDARS
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import calendars


def test_a_calendar_of_everything_parks_its_jobs_and_mending_it_brings_them_back() -> None:
    """Found: a range to 2149 made each job that names the calendar `finished` for good."""
    ports, tables = make_world()
    calendars.put_calendar(ports, "pay", "freezes", {"dates": ["2026-12-24"]}, None)
    create_job(ports, every(3_600) | {"calendars": {"exclude": ["freezes"]}})
    create_job(ports, every(3_600), name="other")
    calendars.put_calendar(ports, "pay", "freezes", {"ranges": [{"from": "2026-01-01", "to": "2149-12-31"}]}, 1)
    for _ in range(3):
        move(ports, 3_600)
        serve(ports)
        reconcile(ports)
    assert (job_item(tables)["status"], job_item(tables)["reason"]) == ("error", ALL_EXCLUDED)
    assert job_item(tables, "other")["status"] == "active"
    calendars.put_calendar(ports, "pay", "freezes", {"dates": ["2026-12-24"]}, 2)
    reconcile(ports)
    assert job_item(tables)["status"] == "active"
    sent = len(sent_refs(ports))
    for _ in range(3):
        move(ports, 3_600)
        serve(ports)
    assert len([ref for ref in sent_refs(ports)[sent:] if "nightly" in ref]) >= 2


def test_a_calendar_that_somebody_has_garbled_is_mended_by_a_change() -> None:
    ports, _ = make_world()
    calendars.put_calendar(ports, "pay", "freezes", {"dates": ["2026-12-24"]}, None)
    place = {"calendar_id": "pay:freezes"}
    ports.store.commit([Update(CALENDARS, place, Anyway("somebody's hand"), set={"spec": 7})])
    assert calendars.put_calendar(ports, "pay", "freezes", {"dates": ["2026-12-25"]}, 1)["version"] == 2
