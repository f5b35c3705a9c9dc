"""The contracts of a team's jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from tickwork.api.cursors import after_name, to_cursor
from tickwork.api.fields import NoBody, TeamPage
from tickwork.api.routing import Call, Route
from tickwork.api.watch.answers import ContractPage, ViolationShown
from tickwork.flows.jobs import contracts


def check_contracts(call: Call[NoBody, TeamPage]) -> tuple[int, ContractPage]:
    """What the contracts of a team's jobs lack: owners, routes, switches.

    Nothing is stopped for it. A page is of so many jobs; it may be empty, and still have a cursor.
    """
    query = call.query
    after = after_name(query.cursor, query.team)
    found, more = contracts.list_violations(call.ports, query.team, limit=query.limit, after=after)
    return 200, {"violations": [_violation(one) for one in found], "cursor": to_cursor(more)}


def _violation(one: contracts.Broken) -> ViolationShown:
    return cast("ViolationShown", {"job_id": one.job_id, **asdict(one.violation)})


ROUTES = (Route("GET", "/contracts:check", check_contracts, NoBody, TeamPage, ContractPage),)
