"""`python -m tickwork.conformance.worker --command "..."`: run the scenarios, print a line for each.

Exit code 0 when all hold. The worker under test needs a job named `conformance` (docs/worker-protocol.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tickwork.conformance.bench import LAMBDA, LEASE, SQS, Bench, Failed
from tickwork.conformance.rules import Scenario
from tickwork.conformance.scenarios import SCENARIOS

LOG_LINES_SHOWN = 15
JOURNAL_LINES_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a scenario: `broken` is the rule that did not hold, or None."""

    name: str
    rule: str
    seconds: float
    broken: str | None
    detail: tuple[str, ...] = ()


def run_scenario(one: Scenario, command: str, mode: str, port: int, log: Path) -> Result:
    began_s = time.monotonic()
    broken: str | None = None
    detail: list[str] = []
    with Bench(command, mode, port, log) as bench:
        try:
            one.check(bench)
        except Failed as failed:
            broken = str(failed)
            tail = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:] if log.exists() else []
            detail = [*bench.journal()[:JOURNAL_LINES_SHOWN], "the worker's last words:", *tail]
    return Result(one.name, one.rule, round(time.monotonic() - began_s, 1), broken, tuple(detail))


def run_all(
    command: str, mode: str, *, port: int = 0, parallel: int = 1, only: str = "", tries: int = 1
) -> list[Result]:
    """Each scenario against a worker process of its own. Port 0: free ports; else `port` and those after it. `tries`:
    a rule is broken when it is broken so many times in a row, for machines too busy to keep time."""
    chosen = [one for one in SCENARIOS if mode in one.modes and only in one.name]
    with tempfile.TemporaryDirectory(prefix="tickwork-conformance-") as folder:

        def run(numbered: tuple[int, Scenario]) -> Result:
            index, one = numbered
            own_port = port + index if port else 0
            result = run_scenario(one, command, mode, own_port, Path(folder) / f"{one.name}.log")
            for again in range(1, tries):
                if result.broken is None:
                    break
                result = run_scenario(one, command, mode, own_port, Path(folder) / f"{one.name}-{again}.log")
            return result

        with ThreadPoolExecutor(parallel) as threads:
            return list(threads.map(run, enumerate(chosen)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tickwork.conformance.worker", description=__doc__)
    parser.add_argument("--command", required=True, help="what starts the worker, with its arguments")
    parser.add_argument("--mode", choices=(SQS, LEASE, LAMBDA), default=SQS, help="how it gets its runs")
    parser.add_argument("--port", type=int, default=0, help="the first of the ports to use (0: free ones)")
    parser.add_argument("--parallel", type=int, default=1, help="scenarios at once")
    parser.add_argument("--tries", type=int, default=1, help="times a rule must be broken (for a busy machine)")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    chosen = parser.parse_args(arguments)
    results = run_all(
        chosen.command,
        chosen.mode,
        port=chosen.port,
        parallel=max(1, chosen.parallel),
        only=chosen.only,
        tries=max(1, chosen.tries),
    )
    if chosen.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print(results)
    return 0 if results and all(result.broken is None for result in results) else 1


def _print(results: list[Result]) -> None:
    for result in results:
        verdict = "ok    " if result.broken is None else "BROKEN"
        print(f"{verdict} {result.name} ({result.seconds} s)\n       {result.rule}")
        if result.broken is not None:
            print(f"       not so: {result.broken}")
            for line in result.detail:
                print(f"         | {line}")
    kept = sum(1 for result in results if result.broken is None)
    print(f"{kept} of {len(results)} rules kept")


if __name__ == "__main__":
    sys.exit(main())
