"""The real clock and real randomness."""

from __future__ import annotations

import time
import uuid


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1_000)


class RandomIds:
    def unique(self) -> str:
        return uuid.uuid4().hex[:20]
