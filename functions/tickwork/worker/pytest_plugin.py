"""Pytest fixtures for job code: `tickwork_effects` to record into, `verify_job` to deliver twice and crash.

def test_charge_is_harmless_twice(verify_job, tickwork_effects, monkeypatch):
    monkeypatch.setattr(shop, "send_email", lambda to: tickwork_effects.record("email", to=to))
    verify_job(shop.app, "charge", {"amount": 5})
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytest

from tickwork.worker.app import App
from tickwork.worker.effects import Effects, RecordedEffects
from tickwork.worker.verifying import Report, verify


class VerifyJob(Protocol):
    def __call__(self, app: App, job: str, payload: Any = None, effects: Sequence[Effects] = ()) -> Report: ...


@pytest.fixture
def tickwork_effects() -> RecordedEffects:
    """Where test doubles record what a job did."""
    return RecordedEffects()


@pytest.fixture
def verify_job(tickwork_effects: RecordedEffects) -> VerifyJob:
    """Fails the test, with the difference, when a second delivery or a crash changes what the job does."""

    def check(app: App, job: str, payload: Any = None, effects: Sequence[Effects] = ()) -> Report:
        report = verify(app, job, payload, [tickwork_effects, *effects])
        if not report.ok:
            pytest.fail("\n".join(report.lines()), pytrace=False)
        return report

    return check
