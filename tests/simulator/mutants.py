"""Checking the checkers: each planted bug must be found within some seeds, or the simulator proves nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulator.planted import PLANTED, Bug
from tests.simulator.run import run_seed

SEEDS_MAX = 2_000


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The production code with a bug in it, for the length of the block."""
    undo = []
    for owner, name, wrong in bug.patches():
        undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, wrong)
    try:
        yield
    finally:
        for owner, name, right in reversed(undo):
            setattr(owner, name, right)


def first_seed(bug: Bug, seeds: range) -> tuple[int, str] | None:
    """The first seed that finds a bug, and what it says; None when none does."""
    with planted(bug):
        for seed in seeds:
            violation = run_seed(seed).violation
            if violation is not None:
                return seed, str(violation)
            if seed % 50 == 0:
                gc.collect()
    return None


def check_all(only: str = "", seeds_max: int | None = None) -> int:
    """Look for every planted bug; prints the first seed of each. The exit code says whether all were found."""
    bugs = [bug for bug in PLANTED if only in bug.name]
    seeds = range(seeds_max or SEEDS_MAX)
    missed = 0
    gc.disable()
    for bug in bugs:
        began = time.perf_counter()
        found = first_seed(bug, seeds)
        took_s = time.perf_counter() - began
        missed += found is None
        what = "MISSED" if found is None else f"seed {found[0]:5d}  {found[1][:110]}"
        print(f"{bug.name:<52} {took_s:6.1f} s  {what}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found within {len(seeds)} seeds each")
    return int(missed > 0)
