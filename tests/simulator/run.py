"""Running seeds: one with its timeline, many with their figures, and the coverage a corpus must show."""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

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


def run_seed(seed: int, *, traced: bool = False) -> World:
    """The history of one seed; with its timeline if wanted (the history is the same)."""
    timeline: list[Entry] | None = [] if traced else None
    return World(seed, timeline=timeline).run()


def run_seeds(seeds: Iterable[int], *, violations_max: int, report: Callable[[str], None]) -> Figures:
    """Many seeds; stops after some violations, each reported as it is found."""
    figures = Figures()
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
