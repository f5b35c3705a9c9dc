"""How fast a fan-out creates its timers, and what it holds in memory: `make bench-fan-out`.

The client alone, against an API that answers at once and keeps nothing: its own cost a line, and whether it grows with
the lines. Then client, API and in-memory store in one process, on one core: what a line costs all of them. What a
deployment adds is the way to it, in which requests at once overlap.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World

from tickwork.fan_out import FanOut, Place

HOUR_MS = 3_600_000
LINES = 20_000_000


class Nobody:
    """An API that answers at once."""

    def post(self, path: str, body: Any) -> Any:
        assert path == "/timers:batch"
        return {"timers": [{"timer_id": "t", "created": True} for _ in body["timers"]]}


class InMemory:
    def __init__(self) -> None:
        self.world = World()
        self._api = ApiUnderTest(self.world.ports)

    def post(self, path: str, body: Any) -> Any:
        status, told = self._api.call("POST", path, body)
        assert status < 300, told
        return told


def _lines(count: int) -> Iterator[object]:
    for number in range(count):
        yield {"user": number, "mail": f"user-{number}@example.com"}


def measured(api: Any, count: int, start_ms: int, parallel: int = 1) -> tuple[float, float]:
    """(lines a second of processor time, MB that the process has grown by)."""
    work = {"team": "shop", "target": {"pool": "default", "handler": "mail"}}
    place = Place("mail", start_ms, 2 * HOUR_MS, work, lines=count)
    grown, began = _peak_mb(), time.process_time()
    done = FanOut(api, place, parallel=parallel, now_ms=lambda: start_ms - HOUR_MS).run(_lines(count))
    assert done.created == count, done
    return count / (time.process_time() - began), _peak_mb() - grown


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fan_out", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the client alone")
    parser.add_argument("--stored", type=int, default=10_000, help="of client, API and store")
    chosen = parser.parse_args()
    measured(Nobody(), 10_000, HOUR_MS)  # what is loaded once is no growth
    for count in (chosen.lines // 10, chosen.lines):
        rate, mb = measured(Nobody(), count, HOUR_MS)
        print(f"client alone: {count:>10,} lines, {rate:>9,.0f} a second of one core, {mb:5.1f} MB more")
    api = InMemory()
    rate, mb = measured(api, chosen.stored, api.world.clock.at_ms + 2 * HOUR_MS)
    print(f"with API and store: {chosen.stored:,} lines, {rate:,.0f} a second of one core, {mb:.1f} MB more (it)")
    print(f"{LINES:,} lines: {LINES / rate / 3600:.1f} hours of one core of the API")


if __name__ == "__main__":
    main()
