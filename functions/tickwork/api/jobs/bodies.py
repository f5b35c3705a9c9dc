"""What a client sends about jobs: registering, changing, pausing, previewing."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tickwork.api.fields import Body, Flag, GroupName, InstantMs, Page, Query, Tag, TeamPage, Text, whole_number
from tickwork.api.runs.bodies import Status
from tickwork.api.work_bodies import WorkIn
from tickwork.core.dispatch.chain import LAST_N_MAX
from tickwork.core.jobs.contracts import MAX_SILENCE_S_MIN, TAGS_MAX
from tickwork.core.jobs.defaults import VERSIONS_MAX
from tickwork.core.jobs.overlap import BUFFERED_MAX
from tickwork.core.schedule.limits import PERIOD_S_MAX, PREVIEW_MAX


class CatchUpIn(Body):
    policy: Literal["latest", "all", "last", "none"] = "latest"
    last: int = Field(default=0, ge=0, le=LAST_N_MAX)
    max_lateness_s: int = Field(default=0, ge=0, le=PERIOD_S_MAX)

    @model_validator(mode="after")
    def _last_goes_with_last(self) -> Self:
        if (self.policy == "last") != (self.last > 0):
            raise ValueError("policy 'last' needs `last` of at least 1, and no other policy takes it")
        return self


class JobIn(WorkIn):
    name: Text
    schedule: dict[str, Any]
    tolerance_s: int | None = Field(default=None, ge=0, le=86_400)
    exact_reason: Text | None = None
    catch_up: CatchUpIn = CatchUpIn()
    overlap: Literal["skip", "allow", "buffer_one", "buffer_all", "cancel_other"] | None = None
    """When one is due while another run has not ended: `skip` it (default of recurring jobs), `allow` both, or
    `buffer_one`: keep the first back until that has ended, and skip those after it. `buffer_all` keeps back as many as
    `buffer_max` says, and lets them go one after the other. `cancel_other`: cancel that run, keep this one back
    until it has ended, and skip one that is kept back already."""
    buffer_max: int | None = Field(default=None, ge=0, le=BUFFERED_MAX)
    """With `buffer_all`: how many are kept back at most, those beyond are skipped; 0: 100."""
    buffer_age_s: int | None = Field(default=None, ge=0, le=PERIOD_S_MAX)
    """With `buffer_all`: what has waited for longer is skipped; 0: no bound."""
    defaults_version: int | None = Field(default=None, ge=0, le=VERSIONS_MAX)
    """Which version of the platform's defaults it goes by in what it does not say; when left out, the one that is
    rolled out for it."""
    owner: Text | None = None
    """Who answers for it: people who can be asked. Left out: the `contact` of its team."""
    pager_route: Annotated[str, Field(min_length=3, max_length=500)] | None = None
    """The address of the one of its team's `routes` by which they are paged first. Left out: the team's first."""
    runbook: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Where it is written what to do when it fails. Left out: the team's."""
    description: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """What it is for."""
    tags: list[Tag] | None = Field(default=None, max_length=TAGS_MAX)
    """`compliance` and `financial` demand a pager route and a dead-man's switch, and a reason for a pause or the
    deletion; others are for you."""
    dead_man_switch: Literal["on", "off"] | None = None
    """Whether its owner is told when it goes without a success for too long. Left out: `on` where `max_silence_s` is
    given."""
    max_silence_s: int | None = Field(default=None, ge=MAX_SILENCE_S_MIN, le=PERIOD_S_MAX)
    """How long that is. Left out: twice the longest gap of its schedule within four years, calendars counted, its
    tolerance, and as long as it usually takes; five minutes at least."""
    min_duration_s: int | None = Field(default=None, ge=1, le=7 * 86_400)
    """A success that takes less may have found nothing to do. It is kept and shown; nobody is told yet."""


class JobChangeIn(Body):
    """A change of a job: the version it was read at, and the fields that change. What is left out stays as it is, also
    inside `retry_policy`, `catch_up` and `target` (one that names a pool or a URL replaces the old one); null gives a
    field its default again, the one that is in force for the job. The whole is then checked as `JobIn`. What an answer
    shows as `***masked***` is left alone when it is sent back in its place. A mark of `secret_fields` is taken away
    only with a payload sent whole."""

    version: int = Field(ge=1, le=10**9)
    schedule: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    payload: Any = Field(default=None, repr=False)
    group: Any = None
    lane: Any = None
    lease_s: Any = None
    retry_policy: dict[str, Any] | None = None
    max_duration_s: Any = None
    start_within_s: Any = None
    idempotency_class: Any = None
    unsafe_sign_off: Any = None
    side_effects: Any = None
    secret_fields: Any = None
    certificate: Any = None
    resources: Any = None
    tolerance_s: Any = None
    exact_reason: Any = None
    catch_up: dict[str, Any] | None = None
    overlap: Any = None
    buffer_max: Any = None
    buffer_age_s: Any = None
    defaults_version: Any = None
    owner: Any = None
    pager_route: Any = None
    runbook: Any = None
    description: Any = None
    tags: Any = None
    dead_man_switch: Any = None
    max_silence_s: Any = None
    min_duration_s: Any = None

    def given(self) -> dict[str, Any]:
        """The fields that were sent, but the version."""
        return {name: getattr(self, name) for name in self.model_fields_set if name != "version"}


class PauseIn(Body):
    """Skip a job's occurrences from now on, or keep them for the end of the pause."""

    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""
    reason: Annotated[str, Field(min_length=1, max_length=160)]
    until: Text | None = None
    """The first instant whose occurrence runs again; when left out, somebody has to resume the job."""
    at_resume: Literal["skip", "latest", "all"] = "skip"
    """What becomes of the occurrences that are due meanwhile: each is skipped; or they wait, for 366 days at the most,
    and when the pause is over the newest runs, or all do."""


class ResumeIn(Body):
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""
    at_resume: Literal["skip", "latest", "all"] | None = None
    """What becomes of what has waited, where it is to be another thing than the pause said: of a pause that keeps what
    it covers."""


class SkipIn(Body):
    """Skip one coming occurrence."""

    scheduled_at: Text
    """Its nominal time, as the job's preview shows it."""
    reason: Annotated[str, Field(min_length=1, max_length=160)]
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""


class UnskipIn(Body):
    """Take back that one is to be skipped."""

    scheduled_at: Text
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""


class RunNowIn(Body):
    """Run a job now, beside its schedule."""

    reason: Annotated[str, Field(min_length=1, max_length=160)]
    """Why; the run's history shows it."""
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""
    payload: Any = Field(default=None, repr=False)
    """For this run alone, instead of the job's (owners only). Left out: the job's."""
    overlap: Literal["allow", "skip"] | None = None
    """`allow`: beside whatever else runs of the job. `skip`: not while another run has not ended, then it is refused.
    Left out: as the job says (where that is `skip`, it is refused, and where what is due waits, it waits), and it then
    holds the job."""
    client_key: Text | None = None
    """What you call this request: repeated with it, it is answered with the first run."""

    @property
    def has_payload(self) -> bool:
        return "payload" in self.model_fields_set


class PreviewIn(Body):
    schedule: dict[str, Any]
    team: Text | None = None
    """Whose calendars the schedule's names mean."""
    job_id: Text | None = None
    """Whose times `H` in an expression stands for."""
    after: str | None = None
    count: int = Field(default=5, ge=1, le=1_000)


class DeleteQuery(Query):
    """What becomes of the job's runs that have not ended."""

    cancel_runs: Flag = False
    """Cancel them too. Otherwise they go on, with their retries."""
    reason: Annotated[str, Field(min_length=1, max_length=160)] | None = None
    """Why; a job that is tagged `compliance` or `financial` is not deleted without."""


class JobsQuery(TeamPage):
    """Which of a team's jobs to list."""

    group: GroupName | None = None
    """Those that bear this label."""


class NextQuery(Query):
    """How much of a schedule to show."""

    count: Annotated[int, Field(ge=1, le=PREVIEW_MAX), whole_number(1, PREVIEW_MAX)] = 5
    after: InstantMs | None = None
    """Occurrences after this instant; after now when left out."""


class JobRunsQuery(Page):
    """A page of one job's runs, the newest nominal time first."""

    status: Status = ""
    since: InstantMs = 0
    """Of this nominal time or later."""


class JobQuery(Query):
    """Which version of a job."""

    version: Annotated[int | None, whole_number(1, 999_999_999)] = None
    """Show the definition as it was at this version, also of a job that was deleted."""
