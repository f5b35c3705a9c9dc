"""How late the schedule was, and how late a retry, are two figures (O4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lists.stage import Stage
from tickwork.api.runs.views import run_view
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.audit.history import RunView


def attempt(stage: Stage, run: dict[str, Any], outcome: str, dispatched_at_ms: int, **of_retry: Any) -> dict[str, Any]:
    entry = {"ref": run["ref"], "claim": f"claim-{stage.now_ms}", "dispatched_at_ms": dispatched_at_ms, **of_retry}
    token = stage.ok("POST", "/runs:start", {"worker": "w", "runs": [entry]})["runs"][0]["token"]
    return stage.ok("POST", "/runs:complete", {"runs": [{"ref": run["ref"], "token": token, "outcome": outcome}]})


def shown(stage: Stage, run: dict[str, Any]) -> dict[str, Any]:
    return stage.ok("GET", f"/runs/{run['occurrence']}")


def test_the_lag_of_the_first_dispatch_stays_when_a_retry_is_hours_later() -> None:
    stage = Stage()
    (run,) = stage.timers(1)
    stage.after(3)
    attempt(stage, run, "failed", stage.now_ms - 1_000)
    first = shown(stage, run)
    assert (first["lag_s"], first["start_lag_s"], first["retry_lag_s"]) == (2.0, 3.0, None)
    stage.after(7_200)
    (retry,) = [item for item in stage.store.items(TIMERS) if "run_ref" in item]
    attempt(stage, run, "succeeded", stage.now_ms, attempt=2, retry_ref=f"{retry['pk']}|{retry['sk']}")
    second = shown(stage, run)
    assert second["attempt"] == 2
    assert (second["lag_s"], second["start_lag_s"]) == (2.0, 3.0)
    assert second["retry_lag_s"] > 7_000, "nobody took the retry for two hours"


def test_a_lapsed_lease_that_is_taken_over_is_no_late_retry() -> None:
    stage = Stage()
    (run,) = stage.timers(1)
    stage.after(1)
    for _ in range(2):
        entry = {"ref": run["ref"], "claim": f"claim-{stage.now_ms}", "dispatched_at_ms": stage.now_ms}
        assert stage.ok("POST", "/runs:start", {"worker": "w", "runs": [entry]})["runs"][0]["granted"]
        stage.after(600)
    found = shown(stage, run)
    assert (found["attempt"], found["lag_s"], found["start_lag_s"], found["retry_lag_s"]) == (2, 1.0, 1.0, None)


@pytest.mark.parametrize(
    ("attempt", "started_ms", "retry_ms", "status", "late_s"),
    [
        (2, 90_500, 90_000, "running", 0.5),
        (2, 90_000, 90_000, "succeeded", 0.0),
        (1, 90_500, 90_000, "running", None),  # its first start had waited for the end of a freeze
        (2, 90_500, 0, "running", None),
        (2, 89_999, 90_000, "running", None),
        (2, 90_500, 90_000, "waiting", None),
    ],
)
def test_only_a_retry_is_late_as_a_retry(
    attempt: int, started_ms: int, retry_ms: int, status: str, late_s: float | None
) -> None:
    key = LedgerKey("main", 0, 60_000, "pay", "nightly", 60_000)
    run = Run(key, status=status, attempt=attempt, started_at_ms=started_ms, retry_at_ms=retry_ms)
    assert run_view(RunView(run, status))["retry_lag_s"] == late_s
