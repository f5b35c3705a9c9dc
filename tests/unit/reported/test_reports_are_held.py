"""Each report from the field has its tests, or says why it has none yet."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

from tests.unit.reported.reports import HELD, REPORTS

FOLDER = Path(__file__).parent
CASES = FOLDER.parents[1] / "cases"
ELSEWHERE = ("tests.process.test_state_on_disk",)
"""Modules of tests that need more than this process: the endpoint's own environment."""
NEIGHBOURS_MIN = 2


def test_every_report_has_tests_under_its_id_or_says_why_not_yet() -> None:
    here = [f"{__package__}.{path.stem}" for path in FOLDER.glob("test_*.py")]
    for module in (*here, *ELSEWHERE):
        importlib.import_module(module)
    later = {name for name, report in REPORTS.items() if report.get("later")}
    assert set(HELD) == set(REPORTS) - later


def test_a_report_is_told_once_and_in_its_form() -> None:
    ids = [json.loads(line)["id"] for line in (CASES / "operation.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ids == sorted(set(ids), key=lambda name: (name.split("-")[1], name))
    for report in REPORTS.values():
        assert report.keys() <= {"id", "kind", "tells", "later"}
        assert re.fullmatch(r"R2-[OT]-\d\d", report["id"])
        assert report["kind"]
        assert report["tells"].endswith(".")
