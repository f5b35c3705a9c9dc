"""What the platform sends about its defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, Text
from tickwork.api.jobs.bodies import CatchUpIn
from tickwork.api.work_bodies import RetryIn
from tickwork.core.jobs.defaults import TOLERANCE_S_MAX, VERSIONS_MAX

TEAMS_MAX = 200
"""Of a roll-out by name: the document stays an item of some kilobytes. For more there is the percentage."""

type Edition = Annotated[int, Field(ge=0, le=10**9)]
type Number = Annotated[int, Field(ge=0, le=VERSIONS_MAX)]
type Why = Annotated[str, Field(min_length=1, max_length=200)]


class NewDefaultsIn(Body):
    """A new version: the newest one, with what is given here. A policy is taken whole."""

    edition: Edition
    """Of the defaults as you have read them."""
    reason: Why
    retry_policy: RetryIn | None = None
    tolerance_s: int | None = Field(default=None, ge=1, le=TOLERANCE_S_MAX)
    """At most: it is never more than half of a job's shortest gap, and 0 for what is due once."""
    overlap: Literal["skip", "allow"] | None = None
    """Of what recurs."""
    catch_up: CatchUpIn | None = None


class CoverageIn(Body):
    """For whom a version is to be in force, and for nobody else."""

    version: Number
    percent: int = Field(default=0, ge=0, le=100)
    """Of all jobs, by a hash of their ids: who is among 10 is among 20."""
    teams: list[Text] = Field(default=[], max_length=TEAMS_MAX)
    """All jobs of these teams."""


class PlanIn(CoverageIn):
    """A roll-out that is only looked at."""

    cursor: str | None = None
    """Where the last answer ended."""


class RollOutIn(CoverageIn):
    """With 0 percent and no team it is taken back."""

    edition: Edition
    """Of the defaults as you have read them."""
    reason: Why
