"""Running seeds: one with its timeline, many with their figures, and the coverage a corpus must show."""

from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from tests.simulator.timeline import render
from tests.simulator.world import Entry, World

CORPUS = range(2_000)
"""The seeds that every run of CI goes through."""


@dataclass(slots=True)
class Figures:
    """What a corpus came to."""

    seeds: int = 0
    port_calls: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    violations: dict[int, str] = field(default_factory=dict)
    core_s: float = 0.0
    """The time of one core: a shared machine should not blur the figure."""

    def __iadd__(self, other: Figures) -> Figures:
        self.seeds += other.seeds
        self.port_calls += other.port_calls
        self.seen.update(other.seen)
        self.violations |= other.violations
        self.core_s += other.core_s
        return self


def run_seed(seed: int, *, traced: bool = False) -> World:
    """The history of one seed; with its timeline if wanted (the history is the same)."""
    timeline: list[Entry] | None = [] if traced else None
    return World(seed, timeline=timeline).run()


_CHUNK = 50
"""Seeds that a process takes at a time: some seconds of work, so that all end at about the same time."""


def run_on_cores(seeds: range, processes: int, *, violations_max: int, report: Callable[[str], None]) -> Figures:
    """As `run_seeds`, on several processes: a seed's history is the same wherever it runs."""
    if processes == 1:
        return run_seeds(seeds, violations_max=violations_max, report=report)
    figures = Figures()
    chunks = [seeds[first : first + _CHUNK] for first in range(0, len(seeds), _CHUNK)]
    one = partial(run_seeds, violations_max=violations_max, report=_silent)
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(one, chunks):
            figures += part
            for seed, violation in part.violations.items():
                report(f"seed {seed}: {violation}")
            if len(figures.violations) >= violations_max:
                pool.shutdown(cancel_futures=True)
                break
    return figures


def _silent(line: str) -> None:
    """What a process of several reports is told by the one that began them."""


def run_seeds(seeds: Iterable[int], *, violations_max: int, report: Callable[[str], None]) -> Figures:
    """Many seeds; stops after some violations, each reported as it is found."""
    figures, began = Figures(), time.process_time()
    gc.disable()  # a world is a web of cycles: collected between seeds, not in the middle of one
    gc.freeze()  # and what was imported is not looked at each time
    try:
        for seed in seeds:
            world = run_seed(seed)
            figures.seeds += 1
            figures.port_calls += world.port_calls
            figures.seen.update(world.seen)
            if world.violation is not None:
                figures.violations[seed] = str(world.violation)
                report(f"seed {seed}: {world.violation}")
                if len(figures.violations) >= violations_max:
                    break
            if figures.seeds % 50 == 0:
                gc.collect()
    finally:
        gc.enable()
    figures.core_s = time.process_time() - began
    return figures


def replay(seed: int) -> Iterator[str]:
    """The timeline of a seed, and how it ended."""
    world = run_seed(seed, traced=True)
    rates = ", ".join(f"{name} {rate:.3g}" for name, rate in world.faults.rates.items()) or "off (or none drawn)"
    yield f"seed {seed}: {world.shape.slices} slices, {world.layout.shards} shards, skews {world.host_skews_ms} ms"
    yield f"elements: {', '.join(sorted(world.shape.elements))}; tight: {', '.join(sorted(world.tight))}"
    yield f"faults: {rates}"
    yield from render(world.timeline or [], world.shape.start_ms)
    if world.violation is None:
        yield f"seed {seed} holds ({world.port_calls} port calls)"
        return
    yield f"seed {seed} VIOLATES {world.violation}"
    if world.cause is not None:
        yield from (line.rstrip() for line in traceback.format_exception(world.cause))
