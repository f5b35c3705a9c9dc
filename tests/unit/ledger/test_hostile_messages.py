"""Whatever somebody puts into a ready queue is a ValueError, or a message."""

from __future__ import annotations

import json

import pytest

from tickwork.core.ledger.messages import LEVELS_MAX, READY_CHARS_MAX, read_ready

REF = "main#0007#29891940|1793516405#payments#nightly#1793516400"
GOOD = {
    "v": 1,
    "ref": REF,
    "run_id": "d6fbc700ee16f0177712f7de3567f6d2",
    "job_id": "payments:nightly",
    "attempt": 1,
    "handler": "settle",
    "lease_s": 90,
}


def test_the_message_that_the_bad_ones_are_made_of_is_good() -> None:
    assert read_ready(json.dumps(GOOD))["ref"] == REF


def _nested(levels: int) -> str:
    """A message of so many levels in all."""
    return json.dumps(GOOD)[:-1] + ',"payload":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def test_a_message_may_be_nested_so_deep_and_no_deeper() -> None:
    assert read_ready(_nested(LEVELS_MAX))["ref"] == REF
    with pytest.raises(ValueError, match="more than 200 levels"):
        read_ready(_nested(LEVELS_MAX + 1))


def test_brackets_side_by_side_are_not_levels() -> None:
    wide = json.dumps(GOOD | {"payload": [[{"a": []}]] * 5_000})
    assert len(read_ready(wide)["payload"]) == 5_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"payload":' * 100_000,
        json.dumps(GOOD)[:-1] + ',"payload":' + "[" * 100_000 + "]" * 100_000 + "}",
        json.dumps(GOOD | {"payload": "x" * READY_CHARS_MAX}),
        json.dumps(GOOD | {"attempt": True}),
        json.dumps(GOOD | {"lease_s": 1.5}),
        json.dumps(GOOD)[:-1] + ',"lease_s":1e999}',
        json.dumps(GOOD | {"ref": "main"}),
        "null",
        "",
    ],
    ids=lambda text: text[:12] + "..." + text[-12:],
)
def test_a_hostile_body_is_no_message(text: str) -> None:
    with pytest.raises(ValueError):
        read_ready(text)
