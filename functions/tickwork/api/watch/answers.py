"""What accountability shows."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment


class ViolationShown(TypedDict):
    """What a job's contract lacks."""

    job_id: str
    field: str
    detail: str
    remedy: str
    refused: bool
    """A new job is refused for it; one that stands goes on."""


class ContractPage(TypedDict):
    violations: list[ViolationShown]
    """Of a page of the team's jobs, by name."""
    cursor: Cursor


class AcknowledgedShown(TypedDict):
    """Who has said that he has heard of an incident."""

    by: str
    reason: str
    at: Moment
    until: Moment | None
    """From then on it is told again; null: not before it is over."""


class IncidentShown(TypedDict):
    """That a job is silent, or cannot be read."""

    job_id: str
    kind: str
    """`silent`: no success for too long; `unreadable`: its definition cannot be read."""
    opened_at: Moment
    since: Moment | None
    """When the silence began; null: it is not known."""
    expected_by: Moment | None
    """By when a success had to come."""
    max_silence_s: int
    why: str
    """What was known when it was opened."""
    tells: int
    """How often its owner was told."""
    acknowledged: NotRequired[AcknowledgedShown]
    closing: bool
    """It is over, and who was told of it hears so."""


class IncidentsPage(TypedDict):
    incidents: list[IncidentShown]
    """The open ones, by job."""
    cursor: Cursor
