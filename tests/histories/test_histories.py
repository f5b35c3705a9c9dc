"""The simulator itself: its histories hold, repeat exactly, and find what is planted."""

from __future__ import annotations

import pytest

from tests.simulator.coverage import REQUIRED, missing
from tests.simulator.mutants import first_seed, planted
from tests.simulator.planted import PLANTED
from tests.simulator.run import replay, run_seed
from tests.simulator.sizes import SIZES, bounds, turned_down
from tests.simulator.tight import SHARES, bounds_of, tightened

QUICK = {
    "advance without the token",
    "advance before the send",
    "take the lease without a condition",
    "a window serves its own second only",
    "the scanner forgets its own next",
    "what could not be sent is forgotten",
    "next computed from now",
    "a refusal always means drop",
    "a step without a transaction",
    "start whatever the status",
    "no ledger audit",
    "an unreadable item stops its slice",
}


@pytest.mark.parametrize("seed", range(40))
def test_a_seed_of_the_corpus_holds(seed: int) -> None:
    world = run_seed(seed)
    assert world.violation is None
    assert world.port_calls > 0


def test_a_seed_replays_exactly() -> None:
    assert list(replay(14)) == list(replay(14))


def test_a_timeline_does_not_change_the_history() -> None:
    assert run_seed(14, traced=True).seen == run_seed(14).seen


@pytest.mark.parametrize("bug", [bug for bug in PLANTED if bug.name in QUICK], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug) -> None:
    assert first_seed(bug, range(1_000)) is not None


def test_every_planted_bug_is_taken_out_again() -> None:
    for bug in PLANTED:
        patched = [(owner, name, getattr(owner, name)) for owner, name, _ in bug.patches()]
        with planted(bug):
            assert any(getattr(owner, name) is not right for owner, name, right in patched)
        assert all(getattr(owner, name) is right for owner, name, right in patched)


def test_at_least_25_bugs_are_planted_under_names_of_their_own() -> None:
    assert len({bug.name for bug in PLANTED}) == len(PLANTED) >= 25


def test_an_outcome_that_was_never_seen_is_reported() -> None:
    assert missing(dict.fromkeys(REQUIRED, 1)) == []
    assert missing({}) == list(REQUIRED)


def test_every_bound_that_is_turned_down_is_one_of_the_flows() -> None:
    assert [name for name in SIZES if not bounds(name)] == []


def test_bounds_are_as_before_after_a_world_with_small_pages() -> None:
    def standing() -> list[int]:
        return [getattr(module, name) for name in SIZES for module in bounds(name)]

    before = standing()
    with turned_down(1):
        assert standing() != before
    assert standing() == before


def test_tight_bounds_are_as_before_after_their_world() -> None:
    def standing() -> list[int]:
        return [getattr(module, name) for one in sorted(SHARES) for module, name, _ in bounds_of(one)]

    before = standing()
    with tightened(frozenset(SHARES)):
        assert all(now != was for now, was in zip(standing(), before, strict=True))
    assert standing() == before
