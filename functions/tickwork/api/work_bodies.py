"""What a job and a timer have in common, as a client writes it: target, payload, policies and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tickwork.api.fields import Body, ErrorClass, GroupName, LeaseS, Text
from tickwork.core.ledger.deadlines import START_WITHIN_S_MAX
from tickwork.core.ledger.lanes import P1
from tickwork.core.runs.push_targets import URL_CHARS_MAX


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


type SecretField = Annotated[str, Field(max_length=200, pattern=r"^[^.\x00-\x1f]+(\.[^.\x00-\x1f]+){0,9}$")]


class WorkIn(Body):
    """What a job and a timer have in common."""

    team: Text
    target: TargetIn
    payload: Any = Field(default=None, repr=False)
    group: GroupName | None = None
    """A label of the team's, by which jobs and timers are listed and paused together."""
    lane: Literal["P0", "P1", "P2"] = "P1"
    """`P0`, transactional: workers take it first. `P1`, standard. `P2`, bulk: it holds up neither. The pool has to have
    a queue for the lane."""
    lease_s: LeaseS = 60
    retry_policy: RetryIn = RetryIn()
    max_duration_s: int = Field(default=0, ge=0, le=7 * 86_400)
    """How long one attempt may take; 0: no bound."""
    start_within_s: int = Field(default=0, ge=0, le=START_WITHIN_S_MAX)
    """How long after its fire time a run may be started for the first time: later, it ends as expired. 0: late beats
    lost."""
    idempotency_class: Literal["keyed", "natural", "unsafe"] = "keyed"
    """`keyed`: by run_id; `natural`: repeating it is harmless; `unsafe`: at most once, and lost when its worker is."""
    unsafe_sign_off: SignOffIn | None = None
    side_effects: list[Annotated[str, Field(min_length=1, max_length=40)]] = Field(default=[], max_length=10)
    """What the job does outside (email, payment, ...)."""
    secret_fields: list[SecretField] = Field(default=[], max_length=20)
    """Which parts of the payload are shown to nobody, as dotted paths: `card.number`. `*` stands for every name, and of
    a list each entry is meant. Workers get them as they are."""
    certificate: CertificateIn | None = None
    """That its code makes a double delivery harmless. An environment may demand it of jobs with side effects."""
    resources: list[ResourceIn] = Field(default=[], max_length=5)
    """Shared by all jobs of the team that name them; a run starts when it has a slot of each."""

    @model_validator(mode="after")
    def _lane_is_a_pools(self) -> Self:
        if self.target.url is not None and self.lane != P1:
            raise ValueError("`lane` goes with a `pool`; pushes have one lane")
        return self

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
