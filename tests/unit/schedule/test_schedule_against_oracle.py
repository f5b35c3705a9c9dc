"""A sample of `make schedule-oracle`: random schedules against an oracle that shares no code with the engine."""

from __future__ import annotations

from difflib import get_close_matches

import pytest
from tests.oracle import proposals
from tests.oracle.compare import soak
from tests.oracle.planted import FAULTS, SEED, SEEN_BY
from tests.oracle.sharp import draw_sharp

from tickwork.core.schedule.cron import field, field_kind


@pytest.mark.parametrize("part", range(4))
def test_no_random_schedule_differs_from_the_oracle(part: int) -> None:
    report = soak(50, SEED, first=50 * part)
    assert report.differences == []
    assert report.compared > 5_000
    assert report.refused < 10


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_from_the_field_is_seen_when_it_is_put_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (plant, draw), number = FAULTS[name], SEEN_BY[name]
    assert soak(1, SEED, first=number, draw=draw, whole_years=False).differences == []
    plant(monkeypatch)
    assert soak(1, SEED, first=number, draw=draw, whole_years=False).differences


def test_no_schedule_drawn_onto_an_edge_differs_from_the_oracle() -> None:
    assert soak(60, SEED, draw=draw_sharp).differences == []


def test_every_proposal_is_accepted_and_due_when_the_person_meant() -> None:
    found = proposals.tally(400, seed=20_260_301)
    assert found.wrong == []
    assert found.proposals > 300


PROPOSALS = {
    "a name is guessed by its letters": (
        field_kind, "meant_name", lambda word, names: next(iter(get_close_matches(word, names, 1, 0.5)), None),
    ),
    "a step in a day field begins with a star": (
        field, "_step_proposal",
        lambda kind, low, step: f"*/{step}" if low == kind.low else f"{low}-{min(kind.high, 31)}/{step}",
    ),
    "a range that wraps around swaps its ends": (
        field_kind, "_unwrapped", lambda kind, low, high, step, *, by_name: f"{high}-{low}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_proposal_that_means_something_else_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, fault = PROPOSALS[name]
    monkeypatch.setattr(target, attribute, fault)
    assert proposals.tally(150, seed=2).wrong
