"""What a run is to do, and how: the definition's half that its messages and attempts go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tickwork.core.ledger.items import Record, Spelling, spelled
from tickwork.core.ledger.writes import Item
from tickwork.core.spelling import canonical_text

KEYED, NATURAL, UNSAFE = "keyed", "natural", "unsafe"
"""Idempotency classes: by `run_id`, by nature, or not at all."""

CONCURRENCY_MAX = 9_999
"""Of a resource: its slots are numbered with four digits."""


@dataclass(frozen=True, slots=True)
class RetryPolicy(Record):
    """`min(base_s * 2^attempt, cap_s) * uniform(0.8, 1.2)`, at most `max_attempts` attempts (spec W5).

    `jitter_percent` is the half-width of the draw. Error classes named in `no_retry_on` end the run at once; when
    `retry_on` names any, all others do.
    """

    max_attempts: int = 5
    base_s: int = 30
    cap_s: int = 3600
    jitter_percent: int = 20
    no_retry_on: tuple[str, ...] = ()
    retry_on: tuple[str, ...] = ()


_DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that only so many runs of a team may use at a time, across all jobs that declare it (F11)."""

    name: str
    max_concurrency: int


def _counts(resources: tuple[Resource, ...]) -> Item:
    """Resources as one mapping from name to count."""
    return {"resources": {one.name: one.max_concurrency for one in resources}} if resources else {}


def _resources(item: Item) -> tuple[Resource, ...]:
    counts = item["resources"].items()
    if not all(count.__class__ is int and 0 < count <= CONCURRENCY_MAX for _, count in counts):
        raise ValueError("resources are counts by name")
    return tuple(Resource(name, count) for name, count in counts)


def _payload(value: object) -> str | None:
    """JSON text. What else somebody has put there is not told: it is a payload all the same."""
    if value is None or isinstance(value, str):
        return value
    raise ValueError("the payload is no text")


def _as_set(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


@dataclass(frozen=True, slots=True)
class Work(Record):
    """What is to be done, by whom: the pool's queue, the handler there, the payload (JSON text) or where it is."""

    pool: str
    handler: str
    payload: str | None = field(default=None, repr=False, metadata={"read": _payload})
    payload_id: str | None = None
    lease_s: int = 60
    retry: RetryPolicy = _DEFAULT_RETRY
    max_duration_s: int = 0
    """How long one attempt may take; 0: as long as its worker keeps the lease."""
    start_within_s: int = 0
    """How long after its time a run may be started for the first time; 0: late beats lost."""
    idempotency_class: str = KEYED
    sign_off: Mapping[str, str] | None = None
    """Who took it upon them, and why, that an `unsafe` job may be lost."""
    side_effects: tuple[str, ...] = ()
    secret_fields: tuple[str, ...] = ()
    """Paths in the payload whose values no answer shows (`access.hiding`)."""
    certificate: Mapping[str, str] | None = None
    """Which code was shown to make a double delivery harmless, and when."""
    resources: tuple[Resource, ...] = field(default=(), metadata=spelled(Spelling(("resources",), _counts, _resources)))
    url: str = ""
    """Where the run is pushed to, instead of waiting for a worker."""
    lane: str = ""
    """Empty: P1 (`ledger.lanes`). `pool` is the one whose queue is the lane's."""
    traceparent: str = ""
    """The W3C trace context of whoever created a one-shot: its run carries on that trace."""

    def in_one_spelling(self) -> Self:
        """The work that says the same: what is a set in one order, and the payload in one spelling."""
        retry = replace(self.retry, no_retry_on=_as_set(self.retry.no_retry_on), retry_on=_as_set(self.retry.retry_on))
        return replace(
            self,
            payload=None if self.payload is None else canonical_text(self.payload),
            retry=retry,
            side_effects=_as_set(self.side_effects),
            secret_fields=_as_set(self.secret_fields),
            resources=tuple(sorted(self.resources, key=lambda one: one.name)),
        )

    @property
    def is_unsafe(self) -> bool:
        """At most once: started once, and never again by itself (W7)."""
        return self.idempotency_class == UNSAFE

    @property
    def is_guarded(self) -> bool:
        """Whether the definition limits how a run may start: its starts then read the definition."""
        return bool(self.max_duration_s or self.resources) or self.is_unsafe


ORDINARY = Work("", "")
"""Stands in for a definition that is not needed, or is gone: the default policies, and no limits."""
