"""Plants each bug of a list in a copy of the code, and asks the nets whether they see it.

    python -m tests.blind.run tests/blind/first.json --seeds 2000 --nets simulator --jobs 2

A bug is caught when its net ends with an error: a violation, a failing test, a crash. Before any bug is planted the
nets have to pass on the code as it is, or what they say of a bug means nothing. One that runs out of time is told as
such, and is not caught. With a map (`tests.blind.reaching`) the simulator leaves out the seeds that never come to the
changed statement, and `--seeds` says how many of the others are tried; with one of the tests
(`tests.blind.reaching_tests`) so do they. Knows nothing of what the nets check.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.blind.reaching import Map, changed_lines
from tests.blind.reaching_tests import UNIT_PATHS, TestMap

ROOT: Final = Path(__file__).resolve().parents[2]
LEFT_OUT: Final = shutil.ignore_patterns(".git", ".venv*", ".tickwork", "node_modules", "cdk.out", "build", ".*_cache")
"""What a copy does without: the environment is the one that this runs in."""
CAUGHT, MISSED, TIMED_OUT = "caught", "missed", "timed out"
OUTPUT_CHARS_MAX: Final = 2_000
"""Of a net's output in the results: its end, which says why."""
_SEED: Final = re.compile(r"\bseed\W{0,2}(\d+)", re.IGNORECASE)
_TEST: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bug:
    """An entry of the list: a text that occurs once in a file, and what takes its place."""

    id: str
    area: str
    file: str
    before: str
    after: str
    why: str

    def planted(self, root: Path) -> str:
        """The file's text with the bug in it. ValueError when the list and the code do not fit any more."""
        text = (root / self.file).read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"{self.id}: its text occurs {text.count(self.before)} times in {self.file}")
        changed = text.replace(self.before, self.after)
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
            raise ValueError(f"{self.id}: it changes nothing in {self.file}")
        return changed


@dataclass(frozen=True, slots=True)
class Seen:
    """What a net said of a bug. `by`: the first seed or test that shows it, else the last line of the output."""

    id: str
    area: str
    net: str
    outcome: str
    by: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Nets:
    """How the nets are run."""

    seeds: int
    timeout_s: int
    map: Map | None = None
    tests: TestMap | None = None

    def command(self, net: str, copy: Path, bug: Bug | None) -> list[str]:
        if net == "simulator" and self.map is not None and bug is not None:
            return [sys.executable, "-m", "tests.blind.reaching", "--run", str(self._chosen(copy, bug, self.map))]
        if net == "simulator":
            seeds = ("--first", "0", "--seeds", str(self.seeds), "--violations", "1")
            return [sys.executable, "-m", "tests.simulator", *seeds]
        if net == "actions":
            return [sys.executable, "-m", "tests.actions", "--seeds", str(self.seeds), "--differences", "1"]
        which = UNIT_PATHS if self.tests is None or bug is None else (f"@{self._tests(copy, bug, self.tests)}",)
        return [sys.executable, "-m", "pytest", *which, "-x", "-q", "-p", "no:cacheprovider"]

    @staticmethod
    def _tests(copy: Path, bug: Bug, known: TestMap) -> Path:
        """A file with the tests to try; those of no package in particular, where none comes to the bug."""
        text = (ROOT / bug.file).read_text()
        tests = known.tests_of(bug.file, text, changed_lines(text, bug.before, bug.after))
        path = copy / "tests.txt"
        path.write_text("\n".join(tests or UNIT_PATHS))
        return path

    def _chosen(self, copy: Path, bug: Bug, known: Map) -> Path:
        """A file with the seeds to try. What must be seen is judged only where all that come to the bug are tried."""
        text = (ROOT / bug.file).read_text()
        reaching = known.seeds_of(bug.file, text, changed_lines(text, bug.before, bug.after))
        seeds = reaching[: self.seeds]
        path = copy / "seeds.json"
        of = len(known.seen) if len(seeds) == len(reaching) else 0
        path.write_text(json.dumps({"seeds": seeds, "shown": known.shown_by_others(seeds), "of": of}))
        return path

    def ask(self, net: str, copy: Path, bug: Bug | None) -> Seen:
        """Run a net in a copy. It gets a session of its own, so that one out of time ends with all that it started."""
        who, area = (bug.id, bug.area) if bug else ("-", "-")
        path = os.pathsep.join([str(copy / "functions"), str(copy)])
        process = subprocess.Popen(
            self.command(net, copy, bug),
            cwd=copy,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return Seen(who, area, net, TIMED_OUT, f"after {self.timeout_s} s", output[-OUTPUT_CHARS_MAX:])
        if process.returncode == 0:
            return Seen(who, area, net, MISSED)
        return Seen(who, area, net, CAUGHT, _shown_by(net, output), output[-OUTPUT_CHARS_MAX:])


def _shown_by(net: str, output: str) -> str:
    found = (_TEST if net == "unit" else _SEED).search(output)
    if found:
        return found[1] if net == "unit" else f"seed {found[1]}"
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no output"


def _try_one(nets: Nets, names: Sequence[str], bug: Bug | None) -> list[Seen]:
    """Ask the nets about one bug, or about the code as it is."""
    with tempfile.TemporaryDirectory(prefix="blind-") as folder:
        copy = Path(folder) / "code"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        if bug is not None:
            (copy / bug.file).write_text(bug.planted(ROOT))
        seen = [nets.ask(net, copy, bug) for net in names]
    for one in seen:
        print(f"{one.id:4} {one.area:11} {one.net:9} {one.outcome:9} {one.by}", flush=True)
    return seen


def _totals(bugs: Sequence[Bug], seen: Sequence[Seen]) -> dict[str, tuple[int, int]]:
    """Caught and planted, by area and as a whole. Two nets that see one bug have caught one."""
    caught = {one.id for one in seen if one.outcome == CAUGHT}
    totals: dict[str, tuple[int, int]] = {}
    for bug in bugs:
        for area in (bug.area, "all"):
            hits, planted = totals.get(area, (0, 0))
            totals[area] = hits + (bug.id in caught), planted + 1
    return {area: totals[area] for area in sorted(totals, key=lambda one: one == "all")}


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.blind.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("list", type=Path, help="the planted bugs, as JSON")
    parser.add_argument("--seeds", type=int, default=2_000, help="seeds of the simulator, or of actions, for each bug")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="this bug only (may be repeated)")
    parser.add_argument("--nets", choices=("simulator", "actions", "unit", "all"), default="simulator")
    parser.add_argument("--jobs", type=int, default=2, help="bugs that are tried at once")
    parser.add_argument("--timeout-s", type=int, default=1_800, help="of one net for one bug")
    parser.add_argument("--skip-clean", action="store_true", help="do not run the nets on the code as it is first")
    parser.add_argument("--map", type=Path, help="which seeds come to which line, at the commit as it is")
    parser.add_argument("--tests-map", type=Path, help="which tests come to which line, at the commit as it is")
    parser.add_argument("--json", type=Path, help="where the results go (default: beside the list)")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """0 when every bug was caught, 1 when some were not, 2 when nothing could be said."""
    options = _arguments(given)
    bugs = [Bug(**entry) for entry in json.loads(options.list.read_text())]
    bugs = [bug for bug in bugs if not options.only or bug.id in options.only]
    try:
        for bug in bugs:
            bug.planted(ROOT)
    except ValueError as error:
        print(error)
        return 2
    names = ("simulator", "unit") if options.nets == "all" else (options.nets,)
    tests = TestMap.read(options.tests_map) if options.tests_map else None
    nets = Nets(options.seeds, options.timeout_s, Map.read(options.map) if options.map else None, tests)
    if not bugs or (not options.skip_clean and any(one.outcome != MISSED for one in _try_one(nets, names, None))):
        print("there is no such bug" if not bugs else "the nets do not pass on the code as it is")
        return 2
    with ThreadPoolExecutor(options.jobs) as threads:
        seen = [one for some in threads.map(lambda bug: _try_one(nets, names, bug), bugs) for one in some]
    totals = _totals(bugs, seen)
    results = {"seeds": options.seeds, "nets": names, "totals": totals, "bugs": [asdict(one) for one in seen]}
    where = options.json or options.list.with_suffix(".results.json")
    where.write_text(json.dumps(results, indent=2) + "\n")
    for area, (hits, planted) in totals.items():
        print(f"{area:11} {hits}/{planted}")
    return 0 if totals["all"][0] == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
