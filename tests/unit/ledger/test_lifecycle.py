"""The life of a run: every pair of state and event is in the table, or raises."""

from __future__ import annotations

import itertools

import pytest

from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger import lifecycle

EVENTS = sorted({event for _, event in lifecycle.TRANSITIONS})
PAIRS = list(itertools.product([lifecycle.ABSENT, *sorted(lifecycle.MEANING)], EVENTS))


@pytest.mark.parametrize(("status", "event"), PAIRS, ids="-".join)
def test_a_pair_leads_where_the_table_says_or_raises(status: str, event: str) -> None:
    if (status, event) in lifecycle.TRANSITIONS:
        assert lifecycle.after(status, event) in lifecycle.MEANING
    else:
        with pytest.raises(InvariantViolated):
            lifecycle.after(status, event)


def test_only_the_dead_come_back_and_only_by_a_replay() -> None:
    after_the_end = {pair: to for pair, to in lifecycle.TRANSITIONS.items() if pair[0] in lifecycle.ENDED}
    assert after_the_end == {(lifecycle.DEAD, lifecycle.REPLAY): lifecycle.WAITING}


def test_every_state_can_be_reached_and_left_or_is_an_end() -> None:
    reached = {lifecycle.PENDING, *lifecycle.TRANSITIONS.values()}
    left = {status for status, _ in lifecycle.TRANSITIONS} - {lifecycle.ABSENT}
    assert reached == set(lifecycle.MEANING)
    assert set(lifecycle.MEANING) - left <= lifecycle.ENDED


def test_queued_and_absent_are_never_stored() -> None:
    assert not {lifecycle.QUEUED, lifecycle.ABSENT} & lifecycle.MEANING.keys()
