"""The windows of a batch of ticks in threads: side by side, and never left running."""

from __future__ import annotations

import threading

import pytest

from tickwork.aws.threads import side_by_side
from tickwork.core.ledger.queues import TICKS_PER_BATCH

PATIENCE_S = 10


def test_windows_are_served_side_by_side_and_answer_in_their_order() -> None:
    meeting = threading.Barrier(TICKS_PER_BATCH, timeout=PATIENCE_S)

    def window(number: int) -> int:
        meeting.wait()
        return number

    windows = [lambda number=number: window(number) for number in range(TICKS_PER_BATCH)]
    assert side_by_side()(windows) == list(range(TICKS_PER_BATCH))


def test_a_window_that_raises_is_heard_when_all_the_others_have_ended() -> None:
    raised, ended = threading.Event(), threading.Event()

    def breaks() -> int | None:
        raised.set()
        raise ValueError("ours")

    def takes_longer() -> int | None:
        assert raised.wait(PATIENCE_S)
        ended.set()
        return None

    with pytest.raises(ValueError, match="ours"):
        side_by_side()([breaks, takes_longer])
    assert ended.is_set()
