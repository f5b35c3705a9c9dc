"""The audit: who changed what, when, from where and how."""

from __future__ import annotations

from tickwork.api.audit.answers import EntriesPage
from tickwork.api.audit.bodies import AuditQuery
from tickwork.api.audit.views import entry_view
from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.fields import NoBody
from tickwork.api.routing import Call, Route
from tickwork.core.instants import LATEST_INSTANT_MS, iso_ms
from tickwork.core.ledger.keys import entry_stream
from tickwork.flows.audit import entries
from tickwork.flows.audit.entries import EntryPlace, Wanted


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
    if place.stream.partition(":")[0] != wanted.team or wanted.stream not in ("", place.stream):
        raise not_a_cursor()
    return place


ROUTES = (Route("GET", "/audit", list_audit, NoBody, AuditQuery, EntriesPage),)
