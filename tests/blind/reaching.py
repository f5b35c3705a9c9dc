"""Which seeds come to a statement: a bug in it is tried on those alone (`python -m tests.blind.reaching MAP.json`).

A history depends on its seed and on the code that it runs. A seed that never comes to the changed statement has the
history that it has without the bug, to the last call: running it again says nothing. `Map` knows for every line which
of the first seeds run it; `run` tries a bug on the seeds that do. Knows nothing of what the nets check.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_TOOL: Final = 3
"""An id of `sys.monitoring` that no debugger, profiler or coverage tool claims."""
_CACHED: Final = "functions/tickwork/core/schedule/"
"""What is computed here is kept from seed to seed: the seed that runs a line is not the only one that goes by it."""

type Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Map:
    """`lines`: by `file:line` the seeds that run it, a bit each. `seen`: what each seed has shown (coverage)."""

    lines: dict[str, int]
    seen: list[dict[str, int]]

    @classmethod
    def read(cls, path: Path) -> Map:
        stored = json.loads(path.read_text())
        return cls({line: int(bits, 16) for line, bits in stored["lines"].items()}, stored["seen"])

    def write(self, path: Path) -> None:
        lines = {line: hex(bits) for line, bits in self.lines.items()}
        path.write_text(json.dumps({"lines": lines, "seen": self.seen}))

    def seeds_of(self, file: str, text: str, changed: Span) -> list[int]:
        """The seeds whose history a change of these lines may change: all, where it is no statement of a function."""
        lines = None if file.startswith(_CACHED) else statements(ast.parse(text).body, changed)
        if not lines:
            return list(range(len(self.seen)))
        bits = 0
        for line in lines:
            bits |= self.lines.get(f"{file}:{line}", 0)
        return [seed for seed in range(len(self.seen)) if bits >> seed & 1]

    def shown_by_others(self, seeds: Sequence[int]) -> Counter[str]:
        """What all other seeds have shown."""
        total: Counter[str] = Counter()
        for seed in set(range(len(self.seen))).difference(seeds):
            total.update(self.seen[seed])
        return total


def changed_lines(text: str, before: str, after: str) -> Span:
    """The first and last line of what differs."""
    same_first = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    room = min(len(before), len(after)) - same_first
    same_last = next((i for i in range(room) if before[-1 - i] != after[-1 - i]), max(0, room))
    begin = text.index(before)
    last = max(same_first, len(before) - same_last - 1)
    return text.count("\n", 0, begin + same_first) + 1, text.count("\n", 0, begin + last) + 1


def statements(body: Sequence[ast.stmt], changed: Span, inside: bool = False) -> set[int] | None:
    """The lines of the statements that a change lies in or beside. None when one of them runs at import."""
    lines: set[int] = set()
    for statement, begin, end in _extents(body):
        if changed[1] < begin - 1 or changed[0] > end + 1:
            continue
        within = _within(statement, begin, changed, inside)
        if within is None:
            return None
        lines |= within
    return lines


def _within(statement: ast.stmt, begin: int, changed: Span, inside: bool) -> set[int] | None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statements(statement.body, changed, True) if changed[0] >= statement.body[0].lineno else None
    if isinstance(statement, ast.ClassDef):
        return statements(statement.body, changed, inside)
    if not inside:
        return None
    blocks = [block for block in _blocks(statement) if block]
    if not blocks or changed[0] <= begin:
        return set(range(begin, (statement.end_lineno or begin) + 1))
    lines = set(range(begin, blocks[0][0].lineno))
    for block in blocks:
        within = statements(block, changed, True)
        if within is None:
            return None
        lines |= within
    return lines


def _extents(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, int, int]]:
    for statement in body:
        decorators = [one.lineno for one in getattr(statement, "decorator_list", [])]
        yield statement, min([statement.lineno, *decorators]), statement.end_lineno or statement.lineno


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def make(seeds: int) -> Map:
    """Run the seeds as the code is, and note which lines of it each comes to."""
    from tests.simulator.run import run_seed

    place, code_under = f"{ROOT}/", f"{ROOT}/functions/"
    reached: set[tuple[str, int]] = set()

    def note(code: object, line: int) -> object:
        file = str(getattr(code, "co_filename", ""))
        if file.startswith(code_under):  # bugs are planted nowhere else, and the lines below are not to note themselves
            reached.add((file, line))
        return sys.monitoring.DISABLE

    watching = sys.monitoring
    watching.use_tool_id(_TOOL, "tickwork blind bugs")
    watching.register_callback(_TOOL, watching.events.LINE, note)
    watching.set_events(_TOOL, watching.events.LINE)
    lines: dict[str, int] = {}
    seen: list[dict[str, int]] = []
    for seed in range(seeds):
        reached.clear()
        watching.restart_events()
        world = run_seed(seed)
        if world.violation is not None:
            print(f"seed {seed} does not hold without any bug, and is left out: {world.violation}", flush=True)
            seen.append({})
            continue
        seen.append(dict(world.seen))
        for file, line in reached:
            name = f"{file.removeprefix(place)}:{line}"
            lines[name] = lines.get(name, 0) | 1 << seed
    return Map(lines, seen)


def run(path: Path) -> int:
    """Try the seeds of a file, and hold what they and the others have shown against what must be seen."""
    from tests.simulator.coverage import missing
    from tests.simulator.run import CORPUS, run_seeds

    chosen = json.loads(path.read_text())
    figures = run_seeds(chosen["seeds"], violations_max=1, report=lambda line: print(line, flush=True))
    if figures.violations:
        return 1
    shown = Counter(chosen["shown"]) + figures.seen
    unseen = missing(shown) if chosen["of"] >= len(CORPUS) else []
    for name in unseen:
        print(f"NOT SEEN: {name}")
    return int(bool(unseen))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.blind.reaching", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="where the map goes; with --run, the seeds to try")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--run", action="store_true")
    chosen = parser.parse_args(given)
    if chosen.run:
        return run(chosen.file)
    make(chosen.seeds).write(chosen.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
