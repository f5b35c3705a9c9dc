"""The table of routes: what is not in it cannot be called, and what contradicts itself in it does not start.

The resolver and the OpenAPI document read this one table. Who may call a route is said in `matrix.py`, and a route of
which it is not said does not start either.
"""

from __future__ import annotations

from tickwork.api import service
from tickwork.api.audit import routes as audit
from tickwork.api.backfills import routes as backfills
from tickwork.api.calendars import routes as calendars
from tickwork.api.cells import routes as cells
from tickwork.api.dead_letters import routes as dead_letters
from tickwork.api.defaults import routes as defaults
from tickwork.api.groups import routes as groups
from tickwork.api.jobs import deleting, pausing, running, skipping
from tickwork.api.jobs import routes as jobs
from tickwork.api.keys import routes as keys
from tickwork.api.pauses import routes as pauses
from tickwork.api.pools import routes as pools
from tickwork.api.routing import Table, checked
from tickwork.api.runs import routes as runs
from tickwork.api.teams import routes as teams
from tickwork.api.timers import routes as timers
from tickwork.api.wall import covered
from tickwork.api.watch import incidents
from tickwork.api.watch import routes as watch
from tickwork.api.workers import routes as workers

CHAPTERS: dict[str, Table] = {
    "jobs": (*jobs.ROUTES, *deleting.ROUTES, *pausing.ROUTES, *running.ROUTES, *skipping.ROUTES),
    "backfills": backfills.ROUTES,
    "timers": timers.ROUTES,
    "groups": groups.ROUTES,
    "calendars": calendars.ROUTES,
    "runs": runs.ROUTES,
    "dead letters": dead_letters.ROUTES,
    "workers": workers.ROUTES,
    "keys": keys.ROUTES,
    "audit": audit.ROUTES,
    "teams": teams.ROUTES,
    "pools": pools.ROUTES,
    "pauses": pauses.ROUTES,
    "cells": cells.ROUTES,
    "defaults": defaults.ROUTES,
    "accountability": (*watch.ROUTES, *incidents.ROUTES),
    "service": service.ROUTES,
}
"""In the order of docs/api.md; the names are the document's tags."""

ROUTES: Table = covered(checked([route for chapter in CHAPTERS.values() for route in chapter]))
