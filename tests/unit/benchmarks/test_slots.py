"""Nobody waits much longer for a slot than first come, first served would have it (F11)."""

from __future__ import annotations

from benchmarks import slots


def test_the_longest_wait_is_at_most_twice_that_of_first_come_first_served() -> None:
    at_ms = slots.arrivals(seed=3, runs=500, load=0.95)
    ours = slots.Service().run(at_ms)
    assert len(ours) == 500
    assert max(ours) <= 2 * max(slots.first_come_first_served(at_ms))
