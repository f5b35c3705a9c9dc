"""A sample of the random sequences (`make fuzz-actions` runs 5,000), and that they do meet what they are there for."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.actions.__main__ import difference_of
from tests.blind.run import ROOT, Bug

PUT_BACK = [Bug(**entry) for entry in json.loads((Path(__file__).parent / "put_back.json").read_text())]
SAMPLE = 150
PER_TEST = 25
MET = (
    "POST", "PATCH", "DELETE", "take", "succeed", "fail", "vanish", "preview", "list", "standstill", "killed_window",
    "run_now", "backfill",
)  # fmt: skip
"""What every sample has to have in it: sequences in which nothing happens show nothing."""


@cache
def _differences(first: int) -> tuple[list[str], Counter[str]]:
    seen = Counter[str]()
    found = [(seed, difference_of(seed, seen)) for seed in range(first, first + PER_TEST)]
    return [f"make fuzz-actions SEED={seed}: {what}" for seed, what in found if what is not None], seen


@pytest.mark.parametrize("first", range(0, SAMPLE, PER_TEST))
def test_what_happens_in_random_sequences_is_what_the_answers_promised(first: int) -> None:
    differences, _ = _differences(first)
    assert not differences


@pytest.mark.parametrize("first", range(0, SAMPLE, PER_TEST))
def test_each_kind_of_thing_happens_in_them(first: int) -> None:
    _, seen = _differences(first)
    assert not [name for name in MET if not seen[name]]


@pytest.mark.parametrize("bug", PUT_BACK, ids=lambda bug: bug.id)
def test_a_fault_that_is_put_back_fits_the_code(bug: Bug) -> None:
    assert bug.planted(ROOT)
