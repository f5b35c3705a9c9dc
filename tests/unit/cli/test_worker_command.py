"""How the worker's process ends: never with a job that goes on while its run is another's."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tickwork.cli import worker_command
from tickwork.client import ApiRefused


class Ended(BaseException):
    """The process is gone."""


class Worked:
    """A worker that has ended like this, holding so many runs."""

    def __init__(self, end: bool | Exception, held: int) -> None:
        self._end, self._held = end, held

    def run(self) -> bool:
        if isinstance(self._end, Exception):
            raise self._end
        return self._end

    def active(self) -> list[object]:
        return [object()] * self._held


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", leave)
    return codes


def test_a_worker_that_has_ended_well_ends_like_any_program(exits: list[int]) -> None:
    worker: Any = Worked(end=True, held=0)
    worker_command._run(worker)
    assert exits == []


@pytest.mark.parametrize("end", [False, ApiRefused(403, {"detail": "the key was revoked"})])
def test_one_whose_job_does_not_stop_leaves_without_it_also_when_it_failed(
    exits: list[int], end: bool | Exception
) -> None:
    """A thread of a job would hold the process, and nobody would beat for it."""
    worker: Any = Worked(end, held=1)
    with pytest.raises(Ended):
        worker_command._run(worker)
    assert exits == [1]


def test_one_that_failed_and_holds_nothing_says_why(exits: list[int]) -> None:
    worker: Any = Worked(ApiRefused(404, {"detail": "there is no pool"}), held=0)
    with pytest.raises(ApiRefused, match="no pool"):
        worker_command._run(worker)
    assert exits == []
