"""What accountability shows."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Cursor


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
