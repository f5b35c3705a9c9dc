"""What has ended when its worker has to stop, and cannot be told for long: one try to report it in each second."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.worker_bench import Bench, HandClock, message, receipt, unreachable
from tests.unit.worker.test_worker_ending import CLEAN_UP_S, GRACE_S, Ending, released, until
from tickwork.worker import App
from tickwork.worker.delivery import Delivery
from tickwork.worker.sources import LeaseSource


def slow_to_tell(runs: dict[str, int], refused_until_s: float) -> Ending:
    """A worker whose jobs have ended when it is told to stop, with leases of so many seconds; none of its reports and
    heartbeats finds an answer until then."""
    over = threading.Event()
    over.set()
    found = Ending(until(over), runs=0)
    bench = found.bench
    bench.api.answers["/runs:start"] = lambda entry: {
        "granted": True,
        "token": 7,
        "attempt": 1,
        "lease_ms": 1_000 * runs[entry["ref"].removeprefix("ref-")],
    }
    bench.take(*(message(name, lease_s=lease_s) for name, lease_s in runs.items()))
    found.threads = [threading.Thread(target=run, daemon=True) for run in bench.submitted]
    for thread in found.threads:
        found.when(0, thread.join)
    usual = bench.api.post

    def post(path: str, body: Any, **options: Any) -> Any:
        if path in ("/runs:complete", "/runs:heartbeat") and found.passed_s < refused_until_s:
            bench.api.calls.append((path, body))
            raise unreachable()
        return usual(path, body, **options)

    def report_once() -> None:
        """A sender that is not answered pauses by itself, and keeps nobody else from going on."""
        completer, moved_s = bench.worker._completer, bench.clock.at_s
        if not completer._ended.empty():
            first = completer._ended.get()
            assert first is not None
            completer.work_off(completer._gather(first))
            bench.clock.at_s = max(moved_s, bench.clock.at_s - 1)
        bench.settle()

    bench.api.post = post  # type: ignore[method-assign]
    bench.report = report_once  # type: ignore[method-assign]
    return found


def test_what_has_ended_is_not_told_to_stop_and_not_handed_back() -> None:
    """It may have had its effects: only its outcome is missing, and is told as long as the lease holds."""
    found = slow_to_tell({"r1": 60}, GRACE_S + CLEAN_UP_S + 10)
    (delivery,) = found.bench.active
    assert found.end()
    assert not delivery.stop
    assert released(found) == []
    assert found.bench.sqs.deleted == [receipt(message(lease_s=60))]


@pytest.mark.parametrize("leases", [{"r1": 40, "r2": 90}, {"r1": 90, "r2": 40}])
def test_it_is_waited_for_the_longest_lease_not_the_shortest(leases: dict[str, int]) -> None:
    found = slow_to_tell(leases, 60)
    assert found.end()
    (longest,) = (name for name, lease_s in leases.items() if lease_s == 90)
    assert found.bench.sqs.deleted == [receipt(message(longest, lease_s=90))]


def test_a_leased_run_s_heartbeat_names_its_message() -> None:
    """Without it the message shows again when the first lease would have ended, and goes round from then on."""
    app = App()
    app.job("job")(lambda ctx: None)
    bench = Bench(app)
    body = {"ref": "ref-r1", "run_id": "r", "job_id": "a:b", "handler": "job", "receipt": "default:handle"}
    body |= {"scheduled_at": "2026-11-30T02:00:00Z", "fire_at": "2026-11-30T02:00:00Z"}
    api: Any = bench.api
    source = LeaseSource(
        pool="default", worker="w", api=api, stopping=bench.stopping, clock=HandClock(), lease_s=60, wait_s=0
    )
    granted: dict[str, Any] = {**body, "token": 7, "attempt": 1, "lease_ms": 60_000}
    delivery: Delivery = source._delivery(granted, 1_000.0, 0)
    with bench.worker._active_lock:
        bench.worker._active.add(delivery)
    bench.clock.at_s += 20
    bench.worker._beats.step()
    assert [entry["receipt"] for entry in bench.api.entries("/runs:heartbeat")] == ["default:handle"]
