"""The audit: who changed what, when, from where and how."""

from __future__ import annotations

from tickwork.api.audit.answers import EntriesPage, VerifyAnswer
from tickwork.api.audit.bodies import AuditQuery, VerifyQuery
from tickwork.api.audit.views import entry_view, finding_view
from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.fields import NoBody
from tickwork.api.routing import Call, Route
from tickwork.core.instants import LATEST_INSTANT_MS, iso_ms
from tickwork.core.ledger.keys import entry_stream, is_entry_place
from tickwork.flows.audit import entries, verifying
from tickwork.flows.audit.entries import EntryPlace, Wanted
from tickwork.flows.audit.findings import VerifyPlace


def list_audit(call: Call[NoBody, AuditQuery]) -> tuple[int, EntriesPage]:
    """A team's audit, newest first: each change of a job, a calendar or a key, and each call on many runs or timers.

    Timers have no entry of their own: their records say who created and cancelled them. A payload is shown as a hash,
    the same for the same.
    """
    query = call.query
    kind, _, name = query.object.partition(":")
    stream = entry_stream(query.team, kind, name) if kind else ""
    until_ms = LATEST_INSTANT_MS if query.until is None else max(0, query.until)
    wanted = Wanted(query.team, stream, query.actor, max(0, query.since or 0), until_ms)
    page = entries.list_entries(call.ports, wanted, limit=query.limit, after=_after(query.cursor, wanted))
    place = page.after
    return 200, {
        "entries": [entry_view(one) for one in page.found],
        "cursor": to_cursor([place.at_ms, place.stream, place.place] if place else None),
        "bounded": page.bounded,
        "reached": iso_ms(place.at_ms) if place else None,
    }


def _after(cursor: str | None, wanted: Wanted) -> EntryPlace | None:
    """The place of a cursor, if it is one of this very list."""
    found: tuple[int, str, str] | None = from_cursor(cursor, int, str, str)
    if found is None:
        return None
    place = EntryPlace(*found)
    is_of_list = place.stream.partition(":")[0] == wanted.team and wanted.stream in ("", place.stream)
    if not is_of_list or not is_entry_place(place.place):
        raise not_a_cursor()
    return place


def verify_audit(call: Call[NoBody, VerifyQuery]) -> tuple[int, VerifyAnswer]:
    """Verify a team's audit, page by page: entries that were edited or removed, and changes that left none."""
    team = call.query.team
    found = verifying.verify_audit(call.ports, team, _verify_place(call.query.cursor, team))
    after, through_ms = found.after, found.sealed.through_ms
    return 200, {
        "team": team,
        "findings": [finding_view(one) for one in found.findings],
        "checked": {"seals": found.seals, "entries": found.entries, "objects": found.things},
        "sealed_through": iso_ms(through_ms) if through_ms else None,
        "seal": found.sealed.head,
        "cursor": to_cursor([after.phase, after.at_ms, after.stream or NONE, after.place or NONE]) if after else None,
    }


NONE = "-"


def _verify_place(cursor: str | None, team: str) -> VerifyPlace | None:
    found: tuple[str, int, str, str] | None = from_cursor(cursor, str, int, str, str)
    if found is None:
        return None
    phase, at_ms, *rest = found
    stream, place = ("" if text == NONE else text for text in rest)
    if phase not in verifying.PHASES or (stream and stream.partition(":")[0] != team):
        raise not_a_cursor()
    is_entry = phase in (verifying.SEALS, verifying.ENTRIES)
    if place and not (is_entry_place(place) if is_entry else place.partition(":")[0] == team):
        raise not_a_cursor()
    return VerifyPlace(phase, at_ms, stream, place)


ROUTES = (
    Route("GET", "/audit", list_audit, NoBody, AuditQuery, EntriesPage),
    Route("GET", "/audit:verify", verify_audit, NoBody, VerifyQuery, VerifyAnswer),
)
