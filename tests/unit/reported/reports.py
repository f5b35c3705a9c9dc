"""Which report of `tests/cases/operation.jsonl` a test holds; `test_reports_are_held.py` sees that none is
forgotten."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

REPORTS: Final[dict[str, dict[str, str]]] = {
    report["id"]: report
    for report in map(
        json.loads, (Path(__file__).parents[2] / "cases" / "operation.jsonl").read_text(encoding="utf-8").splitlines()
    )
}
HELD: Final[dict[str, list[str]]] = defaultdict(list)
"""The tests under each report's id, as far as their modules are imported."""


def holds[F: Callable[..., Any]](report: str) -> Callable[[F], F]:
    """Marks a test as one of a report, or of a neighbour of it."""

    def marked(test: F) -> F:
        HELD[report].append(f"{test.__module__}::{test.__name__}")
        return test

    return marked
