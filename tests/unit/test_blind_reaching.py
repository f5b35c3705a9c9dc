"""The lines that a planted bug is tried on: with too few of them it would be called missed, and was never tried."""

from __future__ import annotations

import ast

from tests.blind.reaching import Map, changed_lines, statements

TEXT = """\
LIMIT = 3


def first(many):
    total = 0
    for one in many:
        if one > LIMIT:
            total += one
    return total


def second(limit=LIMIT):
    return limit
"""


def lines_of(before: str, after: str) -> set[int] | None:
    return statements(ast.parse(TEXT).body, changed_lines(TEXT, before, after))


def test_a_change_within_a_block_is_that_of_the_statements_around_it() -> None:
    lines = lines_of("total += one", "total -= one")
    assert lines is not None
    assert 8 in lines
    assert not lines & {11, 12, 13}, "of no other function"


def test_a_changed_condition_is_that_of_its_whole_statement() -> None:
    lines = lines_of("if one > LIMIT:", "if one >= LIMIT:")
    assert lines is not None
    assert {7, 8} <= lines


def test_what_runs_at_import_is_of_all_seeds() -> None:
    assert not lines_of("LIMIT = 3", "LIMIT = 4")
    assert not lines_of("limit=LIMIT", "limit=LIMIT + 1")
    assert Map({}, [{}, {}]).seeds_of("x.py", TEXT, changed_lines(TEXT, "LIMIT = 3", "LIMIT = 4")) == [0, 1]


def test_the_seeds_of_a_change_are_those_that_run_its_lines() -> None:
    known = Map({"x.py:13": 0b101}, [{"a": 1}, {"a": 2}, {"a": 4}])
    seeds = known.seeds_of("x.py", TEXT, changed_lines(TEXT, "return limit", "return 1"))
    assert seeds == [0, 2]
    assert known.shown_by_others(seeds) == {"a": 2}
