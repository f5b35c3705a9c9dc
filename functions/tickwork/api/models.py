"""Request bodies. What is not named here is refused, and what is wrong is named by its field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tickwork.core.dispatch.chain import LAST_N_MAX
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.runs.attempts import LEASE_S_MAX, LEASE_S_MIN
from tickwork.core.runs.push_targets import URL_CHARS_MAX
from tickwork.core.schedule.limits import PERIOD_S_MAX

BULK_MAX = 100
RUNS_PER_CALL_MAX = 25
PAYLOAD_BYTES_MAX = 256 * 1024
PAYLOAD_LEVELS_MAX = 100
"""Lists and objects inside one another: readers of JSON follow some hundreds."""

type Text = Annotated[str, Field(min_length=1, max_length=256)]
type Ref = Annotated[str, Field(min_length=1, max_length=400)]
type Receipt = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}:[\x21-\x7e]{1,2000}$")]
type ErrorClass = Annotated[str, Field(min_length=1, max_length=80)]
type Token = Annotated[int, Field(ge=1, le=10**9)]
type LeaseS = Annotated[int, Field(ge=LEASE_S_MIN, le=LEASE_S_MAX)]


class Body(BaseModel):
    # Built when a body of its kind first comes: a cold start pays for the one model it needs.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class TargetIn(Body):
    """Who does it: a pool's workers, or a URL that the run is pushed to."""

    pool: Text | None = None
    """The pool whose workers get the run."""
    handler: Text | None = None
    """The name the job function is registered under in the worker; a job's own name when left out."""
    url: Annotated[str, Field(max_length=URL_CHARS_MAX)] | None = None
    """A public http(s) URL: each attempt is a signed POST to it."""
    max_concurrency: int = Field(default=10, ge=1, le=100)
    """Of a URL: how many pushes of the team its origin gets at a time."""

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.pool is None) == (self.url is None):
            raise ValueError("give either `pool` or `url`")
        if self.url is None and "max_concurrency" in self.model_fields_set:
            raise ValueError("`max_concurrency` goes with `url`; a pool's jobs limit themselves by `resources`")
        if self.url is not None and self.handler is not None:
            raise ValueError("`handler` goes with `pool`")
        return self


class RetryIn(Body):
    max_attempts: int = Field(default=5, ge=1, le=50)
    base_s: int = Field(default=30, ge=1, le=3_600)
    cap_s: int = Field(default=3_600, ge=1, le=86_400)
    jitter_percent: int = Field(default=20, ge=0, le=100)
    """The draw is uniform in 1 - jitter to 1 + jitter."""
    no_retry_on: list[ErrorClass] = Field(default=[], max_length=20)
    """Error classes that end the run at once."""
    retry_on: list[ErrorClass] = Field(default=[], max_length=20)
    """If any are named, errors of all other classes end the run at once."""


class CatchUpIn(Body):
    policy: Literal["latest", "all", "last", "none"] = "latest"
    last: int = Field(default=0, ge=0, le=LAST_N_MAX)
    max_lateness_s: int = Field(default=0, ge=0, le=PERIOD_S_MAX)

    @model_validator(mode="after")
    def _last_goes_with_last(self) -> Self:
        if (self.policy == "last") != (self.last > 0):
            raise ValueError("policy 'last' needs `last` of at least 1, and no other policy takes it")
        return self


class ResourceIn(Body):
    """Something that only so many runs of the team may use at a time."""

    name: Text
    max_concurrency: int = Field(ge=1, le=500)


class SignOffIn(Body):
    """Who answers for a job that is not repeated when it is lost, and why that is right."""

    who: Text
    why: Text


class CertificateIn(Body):
    """What `tickwork verify --certificate` wrote: the job's code, run twice for one run_id, had its effects once."""

    job: Text
    ok: Literal[True]
    verified_at: Text
    source_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    effects: int = Field(ge=1)
    deliveries: list[Text] = Field(min_length=1, max_length=100)
    different: list[Text] = Field(max_length=0)


class WorkIn(Body):
    """What a job and a timer have in common."""

    team: Text
    target: TargetIn
    payload: Any = None
    lease_s: LeaseS = 60
    retry_policy: RetryIn = RetryIn()
    max_duration_s: int = Field(default=0, ge=0, le=7 * 86_400)
    """How long one attempt may take; 0: no bound."""
    idempotency_class: Literal["keyed", "natural", "unsafe"] = "keyed"
    """`keyed`: by run_id; `natural`: repeating it is harmless; `unsafe`: at most once, and lost when its worker is."""
    unsafe_sign_off: SignOffIn | None = None
    side_effects: list[Annotated[str, Field(min_length=1, max_length=40)]] = Field(default=[], max_length=10)
    """What the job does outside (email, payment, ...)."""
    certificate: CertificateIn | None = None
    """That its code makes a double delivery harmless. An environment may demand it of jobs with side effects."""
    resources: list[ResourceIn] = Field(default=[], max_length=5)
    """Shared by all jobs of the team that name them; a run starts when it has a slot of each."""

    @model_validator(mode="after")
    def _unsafe_is_signed(self) -> Self:
        if (self.idempotency_class == "unsafe") != (self.unsafe_sign_off is not None):
            raise ValueError(
                "idempotency_class 'unsafe' needs `unsafe_sign_off` {who, why}, and no other class takes it"
            )
        if self.side_effects and self.idempotency_class != "keyed":
            raise ValueError("a job with `side_effects` must be 'keyed': use run_id as the key of each effect")
        if len({one.name for one in self.resources}) != len(self.resources):
            raise ValueError("a resource stands twice in `resources`")
        return self


class JobIn(WorkIn):
    name: Text
    schedule: dict[str, Any]
    tolerance_s: int | None = Field(default=None, ge=0, le=86_400)
    exact_reason: Text | None = None
    catch_up: CatchUpIn = CatchUpIn()


class JobChangeIn(Body):
    """A change of a job: the version it was read at, and the fields that change. What is left out stays as it is, also
    inside `retry_policy`, `catch_up` and `target` (one that names a pool or a URL replaces the old one); null gives a
    field its default again. The whole is then checked as `JobIn`."""

    version: int = Field(ge=1, le=10**9)
    schedule: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    payload: Any = None
    lease_s: Any = None
    retry_policy: dict[str, Any] | None = None
    max_duration_s: Any = None
    idempotency_class: Any = None
    unsafe_sign_off: Any = None
    side_effects: Any = None
    certificate: Any = None
    resources: Any = None
    tolerance_s: Any = None
    exact_reason: Any = None
    catch_up: dict[str, Any] | None = None

    def given(self) -> dict[str, Any]:
        """The fields that were sent, but the version."""
        return {name: getattr(self, name) for name in self.model_fields_set if name != "version"}


class PauseIn(Body):
    """Skip a job's occurrences from now on."""

    by: Annotated[str, Field(min_length=1, max_length=80)]
    reason: Annotated[str, Field(min_length=1, max_length=160)]
    until: Text | None = None
    """The first instant whose occurrence runs again; when left out, somebody has to resume the job."""


class ResumeIn(Body):
    by: Annotated[str, Field(min_length=1, max_length=80)]


class TimerIn(WorkIn):
    at: str | None = None
    zone: str | None = None
    delay_s: float | None = Field(default=None, ge=0)
    client_key: Text | None = None

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if (self.at is None) == (self.delay_s is None):
            raise ValueError("give exactly one of `at` (an instant) and `delay_s` (seconds from now)")
        if self.zone is not None and self.at is None:
            raise ValueError("`zone` goes with `at`")
        return self


class TimersIn(Body):
    timers: list[TimerIn] = Field(min_length=1, max_length=BULK_MAX)


class CancelIn(Body):
    timer_ids: list[Text] = Field(min_length=1, max_length=BULK_MAX)


class CalendarIn(Body):
    """A calendar's content (docs/schedules.md), and the version it replaces (None: it is new)."""

    version: int | None = Field(default=None, ge=1, le=10**9)
    zone: str = "UTC"
    dates: list[Any] = []
    ranges: list[Any] = []
    weekly: list[Any] = []
    holidays: list[Any] = []
    hard: bool = False


class CancelRunIn(Body):
    """A run by its `ref`, by its job and nominal time, or (a one-shot) by its id alone."""

    ref: Ref | None = None
    job_id: Text | None = None
    scheduled_at: Text | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.ref is None) == (self.job_id is None) or (self.scheduled_at and not self.job_id):
            raise ValueError("give `ref`, or `job_id` with `scheduled_at` (a timer's id goes alone)")
        return self


class CancelRunsIn(Body):
    runs: list[CancelRunIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
    reason: Annotated[str, Field(min_length=1, max_length=200)] = "cancelled"


class DeadFilterIn(Body):
    """Which dead letters; what is left out matches any."""

    job_id: Text | None = None
    error_class: ErrorClass | None = None
    """Of the last attempt, as the worker sent it."""
    reason_contains: Text | None = None
    error_contains: Text | None = None
    since: Text | None = None
    """Died at this instant or later."""
    until: Text | None = None
    """Died before this instant."""


class ReplayIn(Body):
    """Replay dead runs: those named, or those a filter finds (page by page, with the cursor of the answer)."""

    team: Text
    runs: list[Ref] | None = Field(default=None, min_length=1, max_length=BULK_MAX)
    filter: DeadFilterIn | None = None
    by: Text
    """Who replays. It stands in the run's history."""
    reason: Annotated[str, Field(min_length=1, max_length=200)]
    per_second: int = Field(default=10, ge=1, le=1_000)
    dry_run: bool = False
    repeat_unsafe: bool = False
    """Also runs of `unsafe` jobs, which may have had their effect already. They are named one by one."""
    cursor: Annotated[str, Field(max_length=4_000)] | None = None
    replayed_before: int = Field(default=0, ge=0, le=1_000_000)
    """How many the pages before this one have replayed: the pace goes on after them."""

    @model_validator(mode="after")
    def _named_or_found(self) -> Self:
        if (self.runs is None) == (self.filter is None):
            raise ValueError("give either `runs` (refs) or `filter` ({} for all of the team's dead letters)")
        if self.runs is not None and len(set(self.runs)) != len(self.runs):
            raise ValueError("a run stands twice in `runs`")
        if self.repeat_unsafe and self.runs is None:
            raise ValueError("`repeat_unsafe` goes with `runs`: look at each before it is repeated")
        return self


class PreviewIn(Body):
    schedule: dict[str, Any]
    team: Text | None = None
    """Whose calendars the schedule's names mean."""
    after: str | None = None
    count: int = Field(default=5, ge=1, le=1_000)


class StartOneIn(Body):
    ref: Ref
    claim: Annotated[str, Field(min_length=8, max_length=64)]
    lease_s: LeaseS = 60
    attempt: int = Field(default=1, ge=1, le=1_000)
    retry_ref: Ref | None = None
    payload_id: Annotated[str, Field(max_length=256)] | None = None
    dispatched_at_ms: int = Field(default=0, ge=0, le=LATEST_INSTANT_MS)
    dispatched_by: str = Field(default="", max_length=64)


class StartIn(Body):
    worker: Annotated[str, Field(min_length=1, max_length=128)]
    runs: list[StartOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class LeaseIn(Body):
    """A worker without a queue asks for runs."""

    worker: Annotated[str, Field(min_length=1, max_length=128)] = "http"
    max: int = Field(default=1, ge=1, le=RUNS_PER_CALL_MAX)
    lease_s: LeaseS | None = None
    """Of all runs in the answer; each run's own when left out."""
    wait_s: int = Field(default=0, ge=0, le=20)
    """How long to wait for the first run."""


class BeatOneIn(Body):
    ref: Ref
    token: Token
    lease_s: LeaseS = 60
    receipt: Receipt | None = None
    """Of a leased run: its message stays hidden as long as the lease lasts."""


class BeatIn(Body):
    runs: list[BeatOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class CompleteOneIn(Body):
    ref: Ref
    token: Token
    outcome: Literal["succeeded", "failed", "failed_permanent", "cancelled"]
    """`cancelled`: stopped because a heartbeat's answer asked for it."""
    error: str = Field(default="", max_length=10_000)
    error_class: str = Field(default="", max_length=80)
    """Of a failure: the class of the error, as `Class` or `module.Class`. The job's policy goes by it."""
    retry_after_s: int = Field(default=0, ge=0)
    """Of a failure: do not try again before this. Honoured up to a day."""
    receipt: Receipt | None = None
    """Of a leased run: its message is deleted when the completion is accepted."""


class CompleteIn(Body):
    runs: list[CompleteOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
