"""What a client sends about teams."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tickwork.api.fields import PAGE_DEFAULT, Body, LeaseS, Limit, Query, Tag, Text
from tickwork.api.work_bodies import RetryIn
from tickwork.core.access.teams import ROUTES_MAX, SHARED_MAX, SHARED_WITH_MAX
from tickwork.core.jobs.contracts import MAX_SILENCE_S_MIN, TAGS_MAX
from tickwork.core.schedule.limits import PERIOD_S_MAX

type Bound = Annotated[int, Field(ge=1, le=10**12)]


class PagerRouteIn(Body):
    """A way to reach whoever answers for the team."""

    kind: Literal["webhook", "topic", "email"]
    """`webhook`: a signed POST to a URL. `topic`: an SNS topic by its ARN. `email`: an address."""
    address: Annotated[str, Field(min_length=3, max_length=500)]


class DefaultsIn(Body):
    """Fields of a job, for the team's jobs to leave out."""

    lease_s: LeaseS | None = None
    tolerance_s: int | None = Field(default=None, ge=0, le=86_400)
    retry_policy: RetryIn | None = None
    tags: list[Tag] | None = Field(default=None, max_length=TAGS_MAX)
    dead_man_switch: Literal["on", "off"] | None = None
    max_silence_s: int | None = Field(default=None, ge=MAX_SILENCE_S_MIN, le=PERIOD_S_MAX)
    min_duration_s: int | None = Field(default=None, ge=1, le=7 * 86_400)
    repeat_s: int | None = Field(default=None, ge=300, le=7 * 86_400)
    """How often an incident that nobody has acknowledged is told again; four hours."""
    second_route_after_s: int | None = Field(default=None, ge=60, le=7 * 86_400)
    """After how long such a one is told by the team's other routes too; a quarter of an hour."""


class QuotasIn(Body):
    """What the team may use at the most. What is left out has no bound."""

    creates_per_s: Bound | None = None
    pending_timers: Bound | None = None
    jobs: Bound | None = None
    payload_bytes: Bound | None = None
    keys: Bound | None = None


class SharedIn(Body):
    """A resource of the team that others may use with it."""

    resource: Text
    teams: list[Text] = Field(min_length=1, max_length=SHARED_WITH_MAX)


class TeamIn(Body):
    """A team, and the version it replaces (none: it is new)."""

    version: int | None = Field(default=None, ge=1, le=10**9)
    contact: Text
    """Who answers for it: people who can be asked, as a name or an address."""
    runbook: Annotated[str, Field(max_length=500)] = ""
    """Where it is written what to do when its jobs fail."""
    routes: list[PagerRouteIn] = Field(default=[], max_length=ROUTES_MAX)
    """Where it is paged."""
    defaults: DefaultsIn = DefaultsIn()
    weight: int = Field(default=1, ge=1, le=100)
    quotas: QuotasIn = QuotasIn()
    shared: list[SharedIn] = Field(default=[], max_length=SHARED_MAX)

    viewers_see_payloads: bool | None = None
    """Whether those who may only look see what is in payloads. Left out: as it is; of a new team they do not."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({(one.kind, one.address) for one in self.routes}) < len(self.routes):
            raise ValueError("the same route stands twice in `routes`")
        if len({one.resource for one in self.shared}) < len(self.shared):
            raise ValueError("the same resource stands twice in `shared`")
        return self


class TeamsQuery(Query):
    """A page of the teams that the caller reaches."""

    limit: Limit = PAGE_DEFAULT
    """How many at most."""
    cursor: str | None = None
    """Where the last page ended."""


class AdoptIn(Body):
    """How teams that have been seen creating things are registered."""

    contact: Text
    """Who answers for them until each says so itself."""
    dry_run: bool = True
    """Only tell which they are."""
    refuse_unknown: bool | None = None
    """Whether what teams create that are not registered is refused from then on; left out: as it is."""
