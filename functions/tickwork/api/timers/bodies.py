"""What a client sends about timers."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tickwork.api.fields import BULK_MAX, Body, GroupName, InstantMs, TeamPage, Text
from tickwork.api.runs.bodies import Status
from tickwork.api.work_bodies import WorkIn


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


class TimersQuery(TeamPage):
    """Which timers to list."""

    status: Status = ""
    group: GroupName | None = None
    """Those that bear this label, wherever in time they lie: an index has them."""
    since: InstantMs | None = None
    """Due at this instant or later; from now on when left out, and of a group from the beginning."""
    until: InstantMs | None = None
    """Due at this instant or before; within a day of `since` when left out, and of a group without end."""
