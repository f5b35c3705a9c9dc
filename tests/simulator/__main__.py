"""`python -m tests.simulator`: run seeds, replay one, or check that the planted bugs are found."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulator.coverage import missing
from tests.simulator.run import CORPUS, Figures, replay, run_on_cores, run_seeds

_FRESH_MAX = 10
"""Of a run without arguments, as CI's: a sample beside the corpus. `--seeds` runs as many as one has time for."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run seeds at once")
    parser.add_argument("--seed", type=int, help="replay this seed and print its timeline")
    parser.add_argument("--seeds", type=int, help="run this many seeds, from --first on")
    parser.add_argument("--first", type=int, default=0, help="the first seed of --seeds (default 0)")
    parser.add_argument("--violations", type=int, default=5, help="stop after this many violations (default 5)")
    parser.add_argument("--mutants", action="store_true", help="check that each planted bug is found")
    parser.add_argument("--coverage", type=int, metavar="SEEDS", help="print which lines so many seeds reach")
    parser.add_argument("--failures", action="store_true", help="measure each failure of the table, in virtual time")
    parser.add_argument("--only", default="", help="of the mutants, those whose name contains this")
    chosen = parser.parse_args(arguments)
    if chosen.mutants:
        from tests.simulator.mutants import check_all

        return check_all(chosen.only, chosen.seeds)
    if chosen.coverage:
        return _coverage(chosen.coverage)
    if chosen.failures:
        return _failures(chosen.only)
    if chosen.seed is not None:
        lines = list(replay(chosen.seed))
        print("\n".join(lines))
        return int(any(f"seed {chosen.seed} VIOLATES" in line for line in lines))
    if chosen.seeds is not None:
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        return _run("seeds", seeds, chosen.violations, chosen.processes)
    fresh = time.time_ns() // 1_000_000_000  # a new stretch of seeds each second, printed so that it can be repeated
    status = _run("corpus", CORPUS, chosen.violations, chosen.processes)
    return status or _run("fresh seeds", range(fresh, fresh + _FRESH_MAX), chosen.violations, chosen.processes)


def _coverage(seeds: int) -> int:
    from tests.simulator import covered

    with covered.watching() as reached:
        run_seeds(range(seeds), violations_max=5, report=print)
    lines = list(covered.report(reached))
    print("\n".join(lines))
    return int(any(line.startswith("UNREACHED") for line in lines))


def _failures(only: str) -> int:
    from tests.simulator.failures import FAILURES, OTHERS, TOUCHED, run_failure

    quiet = run_failure("none").lags[OTHERS].longest_ms
    print(f"{'failure':<20} {'touched: late':>14} {'never':>6} {'others: late':>13} {'never':>6} {'later by':>9}")
    for name in FAILURES:
        if only not in name:
            continue
        report = run_failure(name)
        touched, others = report.lags[TOUCHED], report.lags[OTHERS]
        later = (others.longest_ms - quiet) / 1_000
        late = [max(lags.lags_ms, default=0) / 1_000 for lags in (touched, others)]
        print(
            f"{name:<20} {late[0]:>12.1f} s {touched.never:>6} {late[1]:>11.1f} s {others.never:>6} "
            f"{later:>7.1f} s  {report.violation[:90]}"
        )
    return 0


def _run(what: str, seeds: range, violations_max: int, processes: int) -> int:
    print(f"{what} {seeds.start} to {seeds.stop - 1}")
    figures = run_on_cores(seeds, processes, violations_max=violations_max, report=lambda line: print(line, flush=True))
    _print(figures)
    unseen = missing(figures.seen) if figures.seeds >= len(CORPUS) else []
    for name in unseen:
        print(f"NOT SEEN: {name}")
    return int(bool(figures.violations or unseen))


def _print(figures: Figures) -> None:
    for name, count in sorted(figures.seen.items()):
        print(f"  {count:9d}  {name}")
    print(
        f"{figures.seeds} seeds, {len(figures.violations)} violations, "
        f"{figures.port_calls / max(1, figures.seeds):.0f} port calls a seed, "
        f"{figures.seeds / figures.core_s:.0f} seeds and {figures.port_calls / figures.core_s:.0f} port calls a second "
        "of one core"
    )


if __name__ == "__main__":
    sys.exit(main())
