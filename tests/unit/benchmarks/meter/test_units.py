"""The meter's rules against examples worked out by hand from AWS's documents."""

from __future__ import annotations

import pytest
from benchmarks.meter import units
from benchmarks.meter.bill import Bill, usd

from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.price import prices
from tickwork.store.attributes import to_attributes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 2),  # one digit takes a byte, and one more
        ("7", 2),
        ("42", 2),
        ("123", 3),  # three digits take two bytes
        ("1793318400000", 5),  # 17933184: trailing zeroes are trimmed
        ("1793318400123", 8),  # thirteen digits
        ("0.0012", 2),  # leading zeroes too
        ("-123", 4),
        ("12345678901234567890123456789012345678", 20),
    ],
)
def test_a_number_takes_a_byte_for_two_significant_digits_and_one_more(text: str, size: int) -> None:
    assert units.number_size(text) == size


@pytest.mark.parametrize(
    ("attribute", "size"),
    [
        ({"S": "abc"}, 3),
        ({"S": "\u00e9"}, 2),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"N": "5"}]}, 3 + (1 + 2) + (1 + 2)),
        ({"M": {"a": {"S": "xy"}, "bc": {"BOOL": False}}}, 3 + (1 + 1 + 2) + (1 + 2 + 1)),
        ({"M": {"l": {"L": [{"S": ""}]}}}, 3 + (1 + 1 + (3 + 1))),
    ],
)
def test_a_value_takes_what_the_guide_says(attribute: dict[str, object], size: int) -> None:
    assert units.value_size(attribute) == size


def test_an_item_is_its_names_and_values() -> None:
    assert units.item_size({"pk": {"S": "abc"}, "n": {"N": "42"}}) == (2 + 3) + (1 + 2)


def _item(size: int) -> dict[str, dict[str, object]]:
    return {"pk": {"S": "x" * (size - 2)}}


@pytest.mark.parametrize(
    ("before", "after", "plain", "in_transaction"),
    [
        (0, 1, 1, 2),
        (0, 1024, 1, 2),
        (0, 1025, 2, 4),
        (1500, 200, 2, 4),  # made smaller: the larger of the two counts
        (200, 2049, 3, 6),
        (0, 0, 1, 2),  # a refused write of an item that is not there
    ],
)
def test_a_write_counts_the_larger_image_by_the_kilobyte(
    before: int, after: int, plain: int, in_transaction: int
) -> None:
    old, new = (_item(max(size, 2)) if size else None for size in (before, after))
    assert units.write_units(old, new) == plain
    assert units.write_units(old, new, in_transaction=True) == in_transaction


def test_a_condition_check_counts_as_a_transactional_write() -> None:
    assert units.check_units(_item(500)) == 2
    assert units.check_units(_item(1500)) == 4


@pytest.mark.parametrize(
    ("sizes", "consistent", "expected"),
    [
        ([], True, 1.0),
        ([], False, 0.5),
        ([4096], True, 1.0),
        ([4097], True, 2.0),
        ([500] * 50, True, 7.0),  # 25,000 bytes
        ([500] * 50, False, 3.5),
    ],
)
def test_a_query_counts_its_sum_by_four_kilobytes(sizes: list[int], consistent: bool, expected: float) -> None:
    assert units.read_units(sizes, consistent=consistent) == expected


def test_a_batch_of_gets_counts_each_key_by_itself_and_missing_ones_too() -> None:
    assert units.batch_read_units([500] * 50, consistent=True) == 50
    assert units.batch_read_units([0, 5000], consistent=True) == 1 + 2


def test_an_index_counts_only_when_its_entry_changes() -> None:
    keys = {"pk": {"S": "p"}, "sk": {"S": "s"}}
    entry = keys | {"job_id": {"S": "t:j"}, "scheduled_at_ms": {"N": "1"}}
    charge = lambda before, after: units.index_units(TIMERS, BY_JOB, before, after)  # noqa: E731
    assert charge(None, keys) == 0  # sparse: a one-shot has no entry
    assert charge(None, entry) == 1
    assert charge(entry, entry | {"status": {"S": "running"}}) == 0  # not projected
    assert charge(entry, entry | {"scheduled_at_ms": {"N": "2"}}) == 2  # out and in again
    assert charge(entry, keys) == 1
    assert charge(entry, None) == 1


def test_sqs_counts_chunks_of_64_kilobytes() -> None:
    assert [units.sqs_requests(n) for n in (0, 1, 65_536, 65_537, 250_000)] == [1, 1, 1, 2, 4]


def test_an_asynchronous_invocation_counts_chunks_beyond_256_kilobytes() -> None:
    assert units.lambda_requests(1_000_000, is_async=False) == 1
    assert [units.lambda_requests(n, is_async=True) for n in (0, 262_144, 262_145, 393_217)] == [1, 1, 2, 4]


def test_a_bill_prices_what_it_counted_by_step() -> None:
    bill = Bill()
    with bill.step("create"):
        bill.add("PutItem", dynamodb_write_units=1)
        bill.add("GetItem", dynamodb_read_units=0.5)
    bill.add("SendMessageBatch", sqs_requests=2, sqs_fair_messages=0)
    assert bill.by_step["create"] == {"dynamodb_write_units": 1, "dynamodb_read_units": 0.5}
    assert bill.by_step[""] == {"sqs_requests": 2}
    assert usd({name: n * 1e6 for name, n in bill.total().items()}) == pytest.approx(0.625 + 0.0625 + 0.8)


def test_a_name_without_a_price_is_an_error() -> None:
    with pytest.raises(KeyError):
        usd({"sqs_reqests": 1})


def test_the_price_table_is_dated_and_cites_its_sources() -> None:
    assert prices.AS_OF >= "2026"
    assert prices.SOURCES


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"pk": "é", "n": 0, "m": 1_793_318_400_000, "minus": -123, "yes": True, "nothing": None},
        {"list": [1, "two", [], {"three": 3}], "map": {"a": {"b": [True, None]}}, "empty": {}},
    ],
)
def test_an_item_has_one_size_however_it_is_spelled(item: dict[str, object]) -> None:
    assert units.plain_size(item) == units.item_size(to_attributes(item))
