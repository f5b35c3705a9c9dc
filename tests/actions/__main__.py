"""`python -m tests.actions`: run random sequences of requests, or replay one with everything that happened in it."""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections import Counter

from tests.actions.sequence import Broken, run_sequence

PROGRESS_EVERY = 250


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.actions", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this sequence, and print what happens in it")
    parser.add_argument("--seeds", type=int, default=150, help="run this many sequences, from --first on")
    parser.add_argument("--first", type=int, default=0, help="the first seed of --seeds (default 0)")
    parser.add_argument("--differences", type=int, default=5, help="stop after so many (default 5)")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        difference = difference_of(chosen.seed, loud=True)
        print(f"seed {chosen.seed}: {difference or 'no difference'}")
        return int(difference is not None)
    return _run(range(chosen.first, chosen.first + chosen.seeds), chosen.differences)


def difference_of(seed: int, seen: Counter[str] | None = None, *, loud: bool = False) -> str | None:
    """What a sequence shows of a promise that is not kept."""
    try:
        promises = run_sequence(seed, print if loud else lambda _: None)
    except (Broken, Exception) as error:  # noqa: BLE001 - whatever goes wrong in a sequence is a difference
        if loud:
            traceback.print_exc(file=sys.stdout)
        return f"{'' if isinstance(error, Broken) else repr(error)[:200]} {error}".strip()
    if seen is not None:
        seen.update(promises.seen)
    return None


def _run(seeds: range, most: int) -> int:
    began, seen = time.process_time(), Counter[str]()
    found = done = 0
    for seed in seeds:
        difference = difference_of(seed, seen)
        done += 1
        if difference is not None:
            found += 1
            print(f"seed {seed}: {difference[:1000]}", flush=True)
        if done % PROGRESS_EVERY == 0:
            gc.collect()
            print(f"{done} of {len(seeds)} sequences, {found} differences", flush=True)
        if found >= most:
            break
    took_s = time.process_time() - began
    for name, count in sorted(seen.items()):
        print(f"  {count:9d}  {name}")
    print(f"{done} sequences, {found} differences, {done / max(took_s, 0.01):.1f} sequences a second of one core")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
