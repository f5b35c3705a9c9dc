"""Putting a start off: the run's state, the retry that it waits for and the one that it waited for change together."""

from __future__ import annotations

import pytest

from tickwork.core.instants import SECOND_MS, parse_iso
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Put, Update
from tickwork.core.runs.endings import retry_key
from tickwork.core.runs.putting_off import put_off_retry
from tickwork.core.schedule import Freeze

DUE_MS = parse_iso("2026-10-30T12:00:00Z")
RUN = Run(LedgerKey("main", 0, DUE_MS, "payments", "rates", DUE_MS), status=lifecycle.WAITING, attempt=1, token=1)


@pytest.mark.parametrize("later_s", [-300, 0, 1, 86_400])
def test_a_retry_that_is_put_off_comes_later_than_it_was_whatever_clock_says_so(later_s: int) -> None:
    retry = retry_key(RUN.key, DUE_MS + 60 * SECOND_MS, 2)
    due_ms = retry.fire_at_ms + later_s * SECOND_MS
    moved = put_off_retry(RUN, retry, Freeze("works", due_ms), due_ms, DUE_MS, retention_s=3_600)
    assert moved.retry.fire_at_ms == max(due_ms, retry.fire_at_ms + SECOND_MS)
    run, put, spent = moved.writes
    assert isinstance(run, Update) and run.set["retry_at_ms"] == moved.retry.fire_at_ms  # noqa: PT018
    assert isinstance(put, Put) and isinstance(spent, Update)  # noqa: PT018
    assert (put.item["pk"], put.item["sk"]) != (retry.pk, retry.sk) == (spent.key["pk"], spent.key["sk"])
