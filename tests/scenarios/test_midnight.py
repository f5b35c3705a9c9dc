"""Midnight: 142,000 runs due in one second (spec 0). All are sent, once each, and what is due next does not wait."""

from __future__ import annotations

import os
import time
from collections import Counter

from tests.scenarios.stage import NOW_MS, Process, Stage, Workers
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX
from tickwork.ports import Layout

FULL = bool(os.environ.get("TICKWORK_FULL"))
DUE = 142_000 if FULL else 7_100
SHARDS, SLICES = (64, 16) if FULL else (16, 4)
MIDNIGHT_MS = NOW_MS + DAY_MS
BATCH_MS = 5
"""What a call takes: a batch of ten messages, a transaction, a read."""


def test_at_midnight_a_herd_fires_within_its_objective_and_moves_every_chain() -> None:
    stage = Stage(Layout(shards=SHARDS, slices=SLICES, pools=("default",)))
    creator = stage.process()
    began = time.perf_counter()
    recurring = DUE * 2 // 3
    for n in range(recurring):
        stage.job(f"nightly-{n:06d}", {"rate": "1 day", "anchor": "2026-10-29T00:00:00Z"}, by=creator)
    stage.timers(DUE - recurring, MIDNIGHT_MS, by=creator)
    created_s = time.perf_counter() - began

    stage.at_ms = MIDNIGHT_MS - 2_000 * SECOND_MS
    stage.serve_until_quiet()  # a day without work
    assert stage.at_ms < MIDNIGHT_MS
    stage.at_ms = MIDNIGHT_MS - 20 * SECOND_MS
    stage.serve_until_quiet()
    assert stage.at_ms < MIDNIGHT_MS
    stage.at_ms = MIDNIGHT_MS
    scanners = [one_scanner_of(stage) for _ in range(SLICES)]
    lags_ms = []
    windows: Counter[str] = Counter()
    began = time.perf_counter()
    for slice_no, scanner in enumerate(scanners):
        stage.at_ms = MIDNIGHT_MS  # the slices are served side by side
        for _ in range(50):
            report = scanner.window(slice_no)
            windows[report.outcome] += 1
            if report.outcome == "served":
                break
        lags_ms.append(stage.at_ms - MIDNIGHT_MS)
        assert stage.lease(slice_no).done >= MIDNIGHT_MS // SECOND_MS
    fired_s = time.perf_counter() - began

    assert stage.sent == DUE, "each once, whatever the number of windows it took"
    most_in_hand = max(len(call.detail) for scanner in scanners for call in scanner.calls if call.verb == "send")
    assert most_in_hand <= 2 * PAGE_ITEMS_MAX
    stage.at_ms = MIDNIGHT_MS + max(lags_ms)
    workers = stage.work(Workers())
    assert len(workers.started) == len(set(workers.started)) == DUE
    assert workers.dead_at_start == 0
    assert stage.statuses() == {"succeeded": DUE, "pending": recurring}
    stage.assert_chains_unbroken()
    calls = Counter(f"{call.verb} {call.what}" for scanner in scanners for call in scanner.calls)
    print(
        f"\n{DUE} due in one second, {SLICES} slices: the slowest has sent all after {max(lags_ms) / 1000:.1f} s "
        f"(at {BATCH_MS} ms a call); windows {dict(windows)}; calls {dict(calls)}; "
        f"created in {created_s:.0f} s, fired in {fired_s:.0f} s of this machine"
    )
    assert max(lags_ms) <= 60 * SECOND_MS, "cron's objective: 60 s"


def one_scanner_of(stage: Stage) -> Process:
    """A scanner whose calls take time: a send takes as long as its batches of ten do, one after the other."""
    scanner = stage.process()
    scanner.latency_ms = BATCH_MS

    def batches(call: object) -> bool:
        if getattr(call, "verb", "") == "send":
            stage.at_ms += len(call.detail) // 10 * BATCH_MS  # type: ignore[attr-defined]
        return False

    scanner.before(batches, lambda: None)
    return scanner
