"""Which tests come to a statement: a bug in it is tried on those alone (`python -m tests.blind.reaching_tests MAP`).

The map is made by the tests themselves: the interpreter notes, test by test, the lines of the production code that
it runs, and how long the test took. What a fixture of a wider scope runs counts to the test that asked for it first,
and what another process runs to none: what these tests do not see the whole suite may still see. So the map never
makes a bug look caught that is not. Knows nothing of what the tests check.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.blind.reaching import ROOT, Span, statements

UNIT_PATHS: Final = ("tests/unit", "tests/histories", "tests/scenarios")
_TOOL: Final = 4
"""An id of `sys.monitoring` that no debugger, profiler or coverage tool claims."""
_CODE: Final = f"{ROOT}/functions/"
TEST_S_MAX: Final = 60.0
"""Tests that take longer come to almost every line, and have their own commands."""


@dataclass(slots=True)
class TestMap:
    """`lines`: by `file:line` the tests that run it, by their numbers in `tests`. `took_s`: how long each took."""

    __test__ = False
    tests: list[str] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    lines: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> TestMap:
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"tests": self.tests, "took_s": self.took_s, "lines": self.lines}))

    def tests_of(self, file: str, text: str, changed: Span) -> list[str]:
        """The tests that run one of these lines, the quickest first; of a change that runs at import, those that run
        anything of the file."""
        found = statements(ast.parse(text).body, changed)
        named = (
            [f"{file}:{line}" for line in found] if found else [one for one in self.lines if one.startswith(f"{file}:")]
        )
        numbers = {number for name in named for number in self.lines.get(name, ())}
        quickest = sorted((number for number in numbers if self.took_s[number] <= TEST_S_MAX), key=self._cost)
        return [self.tests[number] for number in quickest]

    def _cost(self, number: int) -> tuple[float, int]:
        return round(self.took_s[number], 1), number


class _Noting:
    """A plugin of pytest that notes what each test runs."""

    def __init__(self) -> None:
        self.map = TestMap()
        self._reached: set[tuple[str, int]] = set()
        self._took_s = 0.0
        self._is_failed = False
        self.failed: list[str] = []

    def note(self, code: object, line: int) -> object:
        file = str(getattr(code, "co_filename", ""))
        if file.startswith(_CODE):
            self._reached.add((file, line))
        return sys.monitoring.DISABLE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._reached, self._took_s, self._is_failed = set(), 0.0, False
        sys.monitoring.restart_events()
        result = yield
        if self._is_failed:
            self.failed.append(item.nodeid)
            return result
        number = len(self.map.tests)
        self.map.tests.append(item.nodeid)
        self.map.took_s.append(round(self._took_s, 3))
        for file, line in sorted(self._reached):
            self.map.lines.setdefault(f"{file.removeprefix(f'{ROOT}/')}:{line}", []).append(number)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s += report.duration
        self._is_failed |= report.failed


def make(paths: Sequence[str]) -> TestMap:
    """Run the tests as the code is, and note which lines of it each comes to. One that fails says nothing of a bug."""
    noting, watching = _Noting(), sys.monitoring
    watching.use_tool_id(_TOOL, "tickwork blind bugs")
    watching.register_callback(_TOOL, watching.events.LINE, noting.note)
    watching.set_events(_TOOL, watching.events.LINE)
    pytest.main(["-q", "-p", "no:cacheprovider", *paths], plugins=[noting])
    watching.set_events(_TOOL, 0)
    watching.free_tool_id(_TOOL)
    for test in noting.failed:
        print(f"fails without any bug, and is left out: {test}")
    return noting.map


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.blind.reaching_tests", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="where the map goes")
    parser.add_argument("paths", nargs="*", default=UNIT_PATHS)
    options = parser.parse_args(given)
    make(options.paths).write(options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
