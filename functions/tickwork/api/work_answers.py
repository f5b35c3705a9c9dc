"""What jobs and timers have in common, as answers show it."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class TargetShown(TypedDict):
    """A pool and the handler there, or a URL and how many pushes its origin gets at a time."""

    pool: NotRequired[str]
    handler: NotRequired[str]
    url: NotRequired[str]
    max_concurrency: NotRequired[int]


class RetryPolicyShown(TypedDict):
    max_attempts: int
    base_s: int
    cap_s: int
    jitter_percent: int
    no_retry_on: list[str]
    retry_on: list[str]


class ResourceShown(TypedDict):
    name: str
    max_concurrency: int


class SignOffShown(TypedDict):
    who: str
    why: str


class CertificateShown(TypedDict):
    source_sha256: str
    verified_at: str


class WorkShown(TypedDict):
    """What is done, by whom, and how. Policies and limits that say nothing are left out."""

    target: NotRequired[TargetShown]
    group: NotRequired[str]
    """The label that it bears among its team's jobs and timers."""
    lane: NotRequired[str]
    """`P0` or `P2`; where it is not shown, `P1`."""
    lease_s: NotRequired[int]
    retry_policy: NotRequired[RetryPolicyShown]
    idempotency_class: NotRequired[str]
    max_duration_s: NotRequired[int]
    start_within_s: NotRequired[int]
    unsafe_sign_off: NotRequired[SignOffShown]
    side_effects: NotRequired[list[str]]
    certificate: NotRequired[CertificateShown]
    resources: NotRequired[list[ResourceShown]]
    payload: NotRequired[Any]
    """With `***masked***` in the place of what is hidden. Workers get it as it is."""
    payload_id: NotRequired[str]
    """Where a payload of more than 400 bytes is kept: that is not shown."""
    payload_hidden: NotRequired[bool]
    """There is a payload, of which nothing is shown: the team does not show it to its viewers, or it is kept apart, and
    has `secret_fields`."""
    secret_fields: NotRequired[list[str]]
    masked: NotRequired[list[str]]
    """Where this answer has `***masked***`: sent back as it is in the same place, it changes nothing."""
