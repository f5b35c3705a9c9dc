"""What a run is to do, and how: the definition's half that its messages and attempts go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from tickwork.core.ledger.items import without_defaults
from tickwork.core.ledger.writes import Item

KEYED, NATURAL, UNSAFE = "keyed", "natural", "unsafe"
"""Idempotency classes: by `run_id`, by nature, or not at all."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
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

    @classmethod
    def from_item(cls, item: Item) -> Self:
        lists: Item = {name: tuple(item[name]) for name in ("no_retry_on", "retry_on") if name in item}
        return cls(**(item | lists))


_DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that only so many runs of a team may use at a time, across all jobs that declare it (F11)."""

    name: str
    max_concurrency: int


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, by whom: the pool's queue, the handler there, the payload (JSON text) or where it is."""

    pool: str
    handler: str
    payload: str | None = None
    payload_id: str | None = None
    lease_s: int = 60
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_duration_s: int = 0
    """How long one attempt may take; 0: as long as its worker keeps the lease."""
    idempotency_class: str = KEYED
    sign_off: Mapping[str, str] | None = None
    """Who took it upon them, and why, that an `unsafe` job may be lost."""
    side_effects: tuple[str, ...] = ()
    certificate: Mapping[str, str] | None = None
    """Which code was shown to make a double delivery harmless, and when."""
    resources: tuple[Resource, ...] = ()
    url: str = ""
    """Where the run is pushed to, instead of waiting for a worker."""
    traceparent: str = ""
    """The W3C trace context of whoever created a one-shot: its run carries on that trace."""

    @property
    def is_unsafe(self) -> bool:
        """At most once: started once, and never again by itself (W7)."""
        return self.idempotency_class == UNSAFE

    @property
    def is_guarded(self) -> bool:
        """Whether the definition limits how a run may start: its starts then read the definition."""
        return bool(self.max_duration_s or self.resources) or self.is_unsafe

    def to_item(self) -> Item:
        item = without_defaults(self)
        retry = without_defaults(item.pop("retry"))
        if self.resources:
            item["resources"] = {one.name: one.max_concurrency for one in self.resources}
        return {**item, **({"retry": retry} if retry else {})}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        return cls(
            pool=item["pool"],
            handler=item["handler"],
            payload=item.get("payload"),
            payload_id=item.get("payload_id"),
            lease_s=item.get("lease_s", 60),
            max_duration_s=item.get("max_duration_s", 0),
            idempotency_class=item.get("idempotency_class", KEYED),
            sign_off=item.get("sign_off"),
            url=item.get("url", ""),
            side_effects=tuple(item.get("side_effects", ())),
            certificate=item.get("certificate"),
            traceparent=item.get("traceparent", ""),
            resources=tuple(Resource(name, count) for name, count in item.get("resources", {}).items()),
            retry=RetryPolicy.from_item(item["retry"]) if "retry" in item else _DEFAULT_RETRY,
        )


ORDINARY = Work("", "")
"""Stands in for a definition that is not needed, or is gone: the default policies, and no limits."""
