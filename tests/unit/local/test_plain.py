"""Foreign text for a terminal: readable, one line, and no orders in it."""

from __future__ import annotations

import json

import pytest

from tests.support.hostile_text import CORPUS, MARKUP, orders_in
from tickwork.local.plain import plain, plain_json, plain_lines


@pytest.mark.parametrize("text", ["", "bank holiday", "Zürich Łódź 日本 🕐", *MARKUP])
def test_what_is_only_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb", r"a\nb"), ("\x1b[2J", r"\x1b[2J"), ("\u202ex", r"\u202ex"), ("\U000e0041", r"\U000e0041")],
)
def test_an_order_stands_as_its_number(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_lines_of_our_own_stay_lines() -> None:
    assert plain_lines("error: \x1b\n  try: it") == "error: \\x1b\n  try: it"


@pytest.mark.parametrize("text", CORPUS, ids=ascii)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_means_the_same_to_a_program(text: str, indent: int | None) -> None:
    shown = plain_json({text: [text]}, indent=indent)
    assert json.loads(shown) == {text: [text]}
    assert not orders_in(shown)
