"""Who may call what: the whole matrix of routes and roles, in one table, with where each request says whose things it
is about.

The wall, the OpenAPI document, docs/access.md and the tests read this table. A route that is not in it does not start.
Refuses to know what a route does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tickwork.core.access.actors import Role

READERS: frozenset[Role] = frozenset({"viewer", "operator", "owner", "platform"})
OPERATORS: frozenset[Role] = frozenset({"operator", "owner", "platform"})
OWNERS: frozenset[Role] = frozenset({"owner", "platform"})
PLATFORM: frozenset[Role] = frozenset({"platform"})
WORKERS: frozenset[Role] = frozenset({"worker", "platform"})
ANYBODY: frozenset[Role] = frozenset()
"""No credential is asked for: the route says nothing of any team."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request names its team.

    `path`: the id in the URL begins with it. `run`: it stands in the name of a run in the URL, or in the job beside it.
    `query`, `body`: its `team`; when it may be left out, that means the caller's own. `each`: each entry of a list in
    the body has a `team`, and one foreign refuses the whole. `entries`: each entry names a thing by an id that begins
    with its team, and is answered on its own. `pool`: none is named, and the runs that come are the caller's team's.
    `nowhere`: there is none.
    """

    kind: Literal["path", "run", "query", "body", "each", "entries", "pool", "nowhere"]
    name: str = "team"


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may call a route, and where the request says whose things it is about."""

    roles: frozenset[Role]
    team: Place
    shares_platforms: bool = False
    """Every team may read the platform's own too."""
    names_calendars: bool = False
    """The request may name calendars: other teams' are not there. All other requests read the calendars of a job as
    dispatch does, or a run of a job that was registered with another team's would start in its hard times."""


_JOB, _TIMER, _CALENDAR = Place("path", "job_id"), Place("path", "timer_id"), Place("path", "calendar_id")
_TEAM, _BACKFILL = Place("path", "team"), Place("path", "backfill_id")
_QUERY, _BODY = Place("query"), Place("body")
_RUNS = Place("entries", "runs")

MATRIX: Mapping[str, Grant] = {
    "create_job": Grant(OWNERS, _BODY, names_calendars=True),
    "list_jobs": Grant(READERS, _QUERY),
    "get_job": Grant(READERS, _JOB),
    "delete_job": Grant(OWNERS, _JOB),
    "change_job": Grant(OWNERS, _JOB, names_calendars=True),
    "pause_job": Grant(OPERATORS, _JOB),
    "resume_job": Grant(OPERATORS, _JOB),
    "run_job": Grant(OPERATORS, _JOB),
    "skip_occurrence": Grant(OPERATORS, _JOB),
    "unskip_occurrence": Grant(OPERATORS, _JOB),
    "create_backfill": Grant(OPERATORS, _JOB),
    "list_backfills": Grant(READERS, _JOB),
    "get_backfill": Grant(READERS, _BACKFILL),
    "pause_backfill": Grant(OPERATORS, _BACKFILL),
    "resume_backfill": Grant(OPERATORS, _BACKFILL),
    "cancel_backfill": Grant(OPERATORS, _BACKFILL),
    "next_occurrences": Grant(READERS, _JOB),
    "job_runs": Grant(READERS, _JOB),
    "preview_schedule": Grant(READERS, _BODY, names_calendars=True),
    "create_timer": Grant(OWNERS, _BODY),
    "create_timers": Grant(OWNERS, Place("each", "timers")),
    "list_timers": Grant(READERS, _QUERY),
    "get_timer": Grant(READERS, _TIMER),
    "cancel_timer": Grant(OPERATORS, _TIMER),
    "cancel_timers": Grant(OPERATORS, Place("entries", "timer_ids")),
    "cancel_group": Grant(OWNERS, _BODY),
    "get_group": Grant(READERS, _QUERY),
    "put_calendar": Grant(OWNERS, _CALENDAR, names_calendars=True),
    "get_calendar": Grant(READERS, _CALENDAR, shares_platforms=True, names_calendars=True),
    "list_calendars": Grant(READERS, _QUERY, shares_platforms=True, names_calendars=True),
    "list_runs": Grant(READERS, _QUERY),
    "get_run": Grant(READERS, Place("run", "run")),
    "cancel_runs": Grant(OPERATORS, _RUNS),
    "list_dead_letters": Grant(READERS, _QUERY),
    "replay_dead_letters": Grant(OPERATORS, _BODY),
    "start_runs": Grant(WORKERS, _RUNS),
    "heartbeat_runs": Grant(WORKERS, _RUNS),
    "complete_runs": Grant(WORKERS, _RUNS),
    "release_runs": Grant(WORKERS, _RUNS),
    "count_unhandled_runs": Grant(WORKERS, _RUNS),
    "lease_runs": Grant(WORKERS, Place("pool", "pool")),
    "create_key": Grant(OWNERS, _BODY),
    "list_keys": Grant(OWNERS, _QUERY),
    "revoke_key": Grant(OWNERS, Place("path", "key_id")),
    "rotate_key": Grant(OWNERS, Place("path", "key_id")),
    "list_audit": Grant(READERS, _QUERY),
    "verify_audit": Grant(READERS, _QUERY),
    "put_team": Grant(OWNERS, _TEAM),
    "get_team": Grant(READERS, _TEAM),
    "list_teams": Grant(READERS, Place("nowhere")),
    "delete_team": Grant(PLATFORM, _TEAM),
    "test_routes": Grant(OWNERS, _TEAM),
    "adopt_teams": Grant(PLATFORM, Place("nowhere")),
    "put_pool": Grant(OWNERS, _TEAM),
    "get_pool": Grant(READERS, _TEAM),
    "list_pools": Grant(READERS, _TEAM),
    "delete_pool": Grant(OWNERS, _TEAM),
    "pause_scope": Grant(OWNERS, _BODY),
    "resume_scope": Grant(OWNERS, _BODY),
    "list_in_flight": Grant(READERS, _QUERY),
    "list_pauses": Grant(READERS, _QUERY),
    "list_cells": Grant(READERS, Place("nowhere")),
    "put_team_placement": Grant(PLATFORM, _TEAM),
    "delete_team_placement": Grant(PLATFORM, _TEAM),
    "put_placement": Grant(PLATFORM, Place("nowhere")),
    "delete_placement": Grant(PLATFORM, Place("nowhere")),
    "get_defaults": Grant(READERS, Place("nowhere")),
    "publish_defaults": Grant(PLATFORM, Place("nowhere")),
    "plan_defaults": Grant(PLATFORM, Place("nowhere")),
    "roll_out_defaults": Grant(PLATFORM, Place("nowhere")),
    "check_contracts": Grant(READERS, _QUERY),
    "list_incidents": Grant(READERS, _QUERY),
    "acknowledge_incident": Grant(OPERATORS, _JOB),
    "health": Grant(ANYBODY, Place("nowhere")),
    "openapi_document": Grant(ANYBODY, Place("nowhere")),
}
