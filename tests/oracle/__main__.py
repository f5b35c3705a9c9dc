"""`python -m tests.oracle`: compare random schedules with the oracle, on several cores."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.oracle.compare import Report, soak
from tests.oracle.sharp import draw_sharp

SHARE = 25
"""Schedules that a process compares at a time."""


SHARP = 4
"""And how many of these are drawn onto the edges."""


def _share(seed: int) -> Report:
    wide, sharp = soak(SHARE, seed), soak(SHARP, seed, draw=draw_sharp)
    return Report(
        wide.schedules + sharp.schedules, wide.refused + sharp.refused, wide.stretches + sharp.stretches,
        wide.compared + sharp.compared, wide.differences + sharp.differences,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    began, whole = time.monotonic(), Report()
    seeds = range(arguments.seed * 1_000_000, arguments.seed * 1_000_000 + -(-arguments.schedules // SHARE))
    with ProcessPoolExecutor(arguments.processes) as pool:
        for part in pool.map(_share, seeds):
            whole.schedules += part.schedules
            whole.refused += part.refused
            whole.stretches += part.stretches
            whole.compared += part.compared
            whole.differences += part.differences
    print(f"{whole}, {time.monotonic() - began:.0f} s")
    print("\n".join(whole.differences[:20]))
    return bool(whole.differences)


if __name__ == "__main__":
    sys.exit(main())
