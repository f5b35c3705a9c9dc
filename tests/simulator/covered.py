"""Which lines of the production code histories run: collected by the interpreter's own monitoring, each line once.

`python -m tests.simulator --coverage 300` prints, for flows, core and worker, what so many seeds reach, and each
function with lines that none of them does. Those stand with a reason in unreached.txt; one that does not is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from types import CodeType

import tickwork

ROOT = Path(tickwork.__file__).parent
ROOMS = ("flows", "core", "worker")
UNREACHED = Path(__file__).with_name("unreached.txt")
_TOOL = 4
"""An id of `sys.monitoring` that no debugger, profiler or coverage tool claims."""

type Places = dict[str, dict[str, set[int]]]
"""Lines by function by file."""


@dataclass(slots=True)
class Reached:
    """The lines that were run, by file."""

    lines: dict[str, set[int]] = field(default_factory=dict)

    def note(self, code: CodeType, line: int) -> object:
        if code.co_filename.startswith(str(ROOT)):
            self.lines.setdefault(code.co_filename, set()).add(line)
        return sys.monitoring.DISABLE


@contextmanager
def watching() -> Iterator[Reached]:
    """Collect what is run inside the block. A line costs something the first time only."""
    reached, monitoring = Reached(), sys.monitoring
    monitoring.use_tool_id(_TOOL, "tickwork simulator")
    monitoring.register_callback(_TOOL, monitoring.events.LINE, reached.note)
    monitoring.set_events(_TOOL, monitoring.events.LINE)
    try:
        yield reached
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.register_callback(_TOOL, monitoring.events.LINE, None)
        monitoring.free_tool_id(_TOOL)
        monitoring.restart_events()


def source_files() -> list[Path]:
    """The files whose lines are counted."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def functions_of(path: Path) -> dict[str, set[int]]:
    """The lines of each function of a file, by qualified name. What runs at import is not counted."""
    found: dict[str, set[int]] = {}
    module = compile(path.read_text(), str(path), "exec")
    for code in _codes(module):
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function's, not a class's or the module's
            lines = {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
            found.setdefault(code.co_qualname.partition(".<locals>")[0], set()).update(lines)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def unreached(reached: Reached) -> tuple[Places, int, int]:
    """(lines that were not run by function by file, how many lines were, how many there are)."""
    places: Places = {}
    hit = total = 0
    for path in source_files():
        run = reached.lines.get(str(path), set())
        name = str(path.relative_to(ROOT))
        for function, lines in functions_of(path).items():
            total += len(lines)
            hit += len(lines & run)
            if lines - run:
                places.setdefault(name, {})[function] = lines - run
    return places, hit, total


def reasons() -> list[tuple[str, str, str]]:
    """The entries of unreached.txt: (file pattern, function pattern, why)."""
    entries = []
    for line in UNREACHED.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            place, _, why = line.partition(": ")
            file, _, function = place.partition(" ")
            entries.append((file.strip(), function.strip() or "*", why.strip()))
    return entries


def unexplained(places: Places) -> list[str]:
    """Functions with lines that were not run and have no reason in unreached.txt."""
    known = reasons()
    return [
        f"{file} {function} {sorted(lines)}"
        for file, functions in places.items()
        for function, lines in functions.items()
        if not any(fnmatch(file, one) and fnmatch(function, other) for one, other, _ in known)
    ]


def report(reached: Reached) -> Iterator[str]:
    """What a person reads: each file with its share, then what nobody has explained."""
    places, hit, total = unreached(reached)
    for path in source_files():
        name = str(path.relative_to(ROOT))
        lines = sum(len(one) for one in functions_of(path).values())
        missed = sum(len(one) for one in places.get(name, {}).values())
        if lines:
            yield f"  {100 * (lines - missed) / lines:5.1f}%  {lines:4d} lines  {name}"
    left = unexplained(places)
    yield from (f"UNREACHED, NO REASON: {place}" for place in left)
    share = 100 * hit / max(1, total)
    yield f"{hit} of {total} lines in functions run ({share:.1f}%), {len(left)} functions unexplained"
