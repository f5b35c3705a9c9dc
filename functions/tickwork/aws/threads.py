"""Windows in threads, for a process that serves several slices. The flows know no thread; they are given this."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from tickwork.core.ledger.queues import TICKS_PER_BATCH
from tickwork.flows.dispatch.tick_batches import Serving, Window, one_by_one


def side_by_side() -> Serving:
    """Windows wait for answers most of their time, and a slice does not wait for nine others. All have ended before
    this returns, also when one raises: a frozen environment must not hold a half-served slice."""
    threads = ThreadPoolExecutor(TICKS_PER_BATCH, thread_name_prefix="window")

    def serve(windows: Sequence[Window]) -> list[int | None]:
        if len(windows) == 1:
            return one_by_one(windows)
        running = [threads.submit(window) for window in windows]
        wait(running)
        return [window.result() for window in running]

    return serve
