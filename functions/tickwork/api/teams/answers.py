"""Teams as answers show them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment


class PagerRouteShown(TypedDict):
    """A way to reach whoever answers for the team."""

    kind: str
    address: str
    state: NotRequired[str]
    """Where one team is shown: `proven` when a test message has got through, and that alone counts; `untested`;
    `waiting`: it is on its way; `unconfirmed`: the address has not agreed yet; `failed`."""
    tested_at: NotRequired[Moment | None]
    detail: NotRequired[str | None]


class QuotasShown(TypedDict):
    """What the team may use at the most; null: there is no bound."""

    creates_per_s: int | None
    pending_timers: int | None
    jobs: int | None
    payload_bytes: int | None
    keys: int | None


class SharedShown(TypedDict):
    """A resource of the team that others may use with it."""

    resource: str
    teams: list[str]


class TeamShown(TypedDict):
    """A registered team."""

    team: str
    version: int
    contact: str
    runbook: str
    routes: list[PagerRouteShown]
    defaults: dict[str, Any]
    weight: int
    quotas: QuotasShown
    used: NotRequired[QuotasShown]
    """Where one team is shown: what it uses of the quotas that are set; null: nobody has counted it yet. Timers and
    payloads are counted in chunks, and creates of a second only where somebody had to ask for them."""
    shared: list[SharedShown]
    viewers_see_payloads: bool
    created_at: Moment
    created_by: str
    changed_at: Moment
    changed_by: str


class TeamsPage(TypedDict):
    teams: list[TeamShown]
    """By name."""
    cursor: Cursor


class DeletedTeam(TypedDict):
    team: str
    deleted: bool


class AdoptedTeams(TypedDict):
    teams: list[str]
    """Those that were registered by this request; with `dry_run`, that would be."""
    dry_run: bool
    more: bool
    """There are more: repeat the request."""
    unknown_refused: bool
    """Whether what teams create that are not registered is refused."""
