"""The places of the wheel of deadlines."""

from __future__ import annotations

import pytest

from tickwork.core.instants import MINUTE_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.work import Work
from tickwork.core.watch import wheel

NOW_MS = 1_793_318_400_000
JOB = Job("payments", "rates", {"rate": "1 hour"}, Work("default", "rates"), deadline_mark=7)


@pytest.mark.parametrize("at_ms", [0, NOW_MS - MINUTE_MS, NOW_MS, NOW_MS + MINUTE_MS])
def test_no_deadline_is_put_where_the_watchdog_may_have_been(at_ms: int) -> None:
    """Whoever puts one may be slow by half a minute, and so may its clock."""
    one = wheel.deadline(JOB, at_ms, 60, NOW_MS)
    assert one.minute == (NOW_MS + 2 * MINUTE_MS) // MINUTE_MS
    assert one.minute > wheel.looked_through(NOW_MS + MINUTE_MS)


def test_a_deadline_is_read_as_it_was_put() -> None:
    one = wheel.deadline(JOB, NOW_MS + 90 * MINUTE_MS, 5_400, NOW_MS)
    assert wheel.deadline_from(one.to_item()) == one
    assert (one.job_id, one.mark, one.silence_s) == ("payments:rates", 7, 5_400)


def test_a_minute_is_looked_through_when_it_is_over_by_every_clock() -> None:
    minute = NOW_MS // MINUTE_MS
    assert wheel.looked_through(NOW_MS + MINUTE_MS) == minute - 1
    assert wheel.looked_through(NOW_MS + MINUTE_MS + wheel.SLACK_MS) == minute


def test_what_names_no_job_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="names no job"):
        wheel.deadline_from({"minute": 1, "team": "payments"})
