"""The store against DynamoDB's wire: each request exactly as it is sent, each answer and error as it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_aws import LOST, UNREACHED, Answer, FakeAws, Fault
from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, Throttled, WorldError
from tickwork.core.ledger.tables import BAD_ENDS, BY_JOB, JOBS, LEASES, RESOURCES, TIMERS
from tickwork.core.ledger.writes import (
    Absent,
    Anyway,
    Below,
    Check,
    Committed,
    Delete,
    Is,
    Missing,
    Put,
    Refused,
    Update,
    Write,
    all_of,
    any_of,
)
from tickwork.ports import Page
from tickwork.store.dynamodb import DynamoStore

KEY = {"pk": "main#001#7", "sk": "05#shop"}
WIRE_KEY = {"pk": {"S": "main#001#7"}, "sk": {"S": "05#shop"}}
TRIES = 2
"""Of the client by itself (tickwork.aws.wiring): one repetition."""


# --- reads ----------------------------------------------------------------------------------------------------------


def test_get_reads_consistently_and_by_the_whole_key(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({"Item": WIRE_KEY | {"n": {"N": "7"}}})
    assert store.get(TIMERS, KEY) == KEY | {"n": 7}
    assert dynamodb.sent == [("GetItem", {"TableName": "t-timers", "Key": WIRE_KEY, "ConsistentRead": True})]


def test_what_is_not_there_is_none(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({})
    assert store.get(LEASES, {"slice": "main#000"}) is None
    assert dynamodb.body == {"TableName": "t-leases", "Key": {"slice": {"S": "main#000"}}, "ConsistentRead": True}


def test_every_type_of_an_item_comes_back_as_it_went(store: DynamoStore, dynamodb: FakeAws) -> None:
    item = {
        "job_id": "a",
        "n": -3,
        "yes": True,
        "no": False,
        "none": None,
        "list": [1, "x", []],
        "map": {"a": {"b": 2}},
    }
    wire = {
        "job_id": {"S": "a"},
        "n": {"N": "-3"},
        "yes": {"BOOL": True},
        "no": {"BOOL": False},
        "none": {"NULL": True},
        "list": {"L": [{"N": "1"}, {"S": "x"}, {"L": []}]},
        "map": {"M": {"a": {"M": {"b": {"N": "2"}}}}},
    }
    dynamodb.will_answer({}, {"Item": wire})
    store.commit([Put(JOBS, item, Anyway("a test"))])
    assert dynamodb.body == {"TableName": "t-jobs", "Item": wire}
    found = store.get(JOBS, {"job_id": "a"})
    assert found == item
    assert found is not None
    assert [type(found[name]) for name in ("n", "yes", "none")] == [int, bool, type(None)]


def test_a_float_is_not_stored(store: DynamoStore) -> None:
    with pytest.raises(InvariantViolated, match="float"):
        store.commit([Put(JOBS, {"job_id": "a", "rate": 0.5}, Absent())])


def _jobs(*numbers: int) -> list[dict[str, Any]]:
    return [{"job_id": f"j{n:03}"} for n in numbers]


def _wire(*numbers: int) -> list[dict[str, Any]]:
    return [{"job_id": {"S": f"j{n:03}"}} for n in numbers]


def test_many_come_in_the_order_of_their_keys_and_none_where_there_is_none(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    dynamodb.will_answer({"Responses": {"t-jobs": _wire(3, 1)}, "UnprocessedKeys": {}})
    assert store.get_many(JOBS, _jobs(1, 2, 3)) == [{"job_id": "j001"}, None, {"job_id": "j003"}]
    assert dynamodb.sent == [
        ("BatchGetItem", {"RequestItems": {"t-jobs": {"Keys": _wire(1, 2, 3), "ConsistentRead": True}}})
    ]


def test_many_of_a_table_with_sort_keys_are_told_apart_by_both(store: DynamoStore, dynamodb: FakeAws) -> None:
    rows = [{"resource": {"S": "r"}, "slot": {"S": s}, "holder": {"S": s}} for s in ("b", "a")]
    dynamodb.will_answer({"Responses": {"t-resources": rows}, "UnprocessedKeys": {}})
    found = store.get_many(RESOURCES, [{"resource": "r", "slot": "a"}, {"resource": "r", "slot": "b"}])
    assert [item and item["holder"] for item in found] == ["a", "b"]


def test_keys_left_unprocessed_are_asked_for_again_and_never_taken_for_absent(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    left = {"t-jobs": {"Keys": _wire(2, 3), "ConsistentRead": True}}
    left_again = {"t-jobs": {"Keys": _wire(3), "ConsistentRead": True}}
    dynamodb.will_answer(
        {"Responses": {"t-jobs": _wire(1)}, "UnprocessedKeys": left},
        {"Responses": {}, "UnprocessedKeys": left},
        {"Responses": {"t-jobs": _wire(2)}, "UnprocessedKeys": left_again},
        {"Responses": {"t-jobs": _wire(3)}, "UnprocessedKeys": {}},
    )
    assert store.get_many(JOBS, _jobs(1, 2, 3)) == _jobs(1, 2, 3)
    assert [body["RequestItems"] for _, body in dynamodb.sent[1:]] == [left, left, left_again]


def test_keys_left_unprocessed_for_ever_are_a_throttle(store: DynamoStore, dynamodb: FakeAws) -> None:
    left = {"t-jobs": {"Keys": _wire(1), "ConsistentRead": True}}
    dynamodb.will_answer(*[{"Responses": {}, "UnprocessedKeys": left}] * 8)
    with pytest.raises(Throttled):
        store.get_many(JOBS, _jobs(1))


def test_more_than_a_hundred_keys_are_several_calls(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer(
        {"Responses": {"t-jobs": _wire(*range(100))}, "UnprocessedKeys": {}},
        {"Responses": {"t-jobs": _wire(*range(100, 200))}, "UnprocessedKeys": {}},
        {"Responses": {"t-jobs": _wire(200)}, "UnprocessedKeys": {}},
    )
    assert store.get_many(JOBS, _jobs(*range(201))) == _jobs(*range(201))
    assert [len(body["RequestItems"]["t-jobs"]["Keys"]) for _, body in dynamodb.sent] == [100, 100, 1]


QUERY: dict[str, Any] = {
    "TableName": "t-timers",
    "KeyConditionExpression": "#p = :p AND #s BETWEEN :first AND :last",
    "ExpressionAttributeNames": {"#p": "pk", "#s": "sk"},
    "ExpressionAttributeValues": {":p": {"S": "main#001#7"}, ":first": {"S": "05"}, ":last": {"S": "06"}},
    "ConsistentRead": True,
    "Limit": 8,
}


def test_a_query_reads_a_range_consistently_and_ascending(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({"Items": [WIRE_KEY]})
    assert store.query(TIMERS, "main#001#7", "05", "06", limit=8) == Page((KEY,), None)
    assert dynamodb.sent == [("Query", QUERY)]


def test_a_query_goes_on_after_a_position(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({"Items": []})
    store.query(TIMERS, "main#001#7", "05", "06", limit=8, after="05#shop")
    assert dynamodb.body == QUERY | {"ExclusiveStartKey": WIRE_KEY}


@pytest.mark.parametrize("items", [[], [WIRE_KEY]], ids=["empty", "short"])
def test_a_page_cut_by_size_or_by_filter_is_not_the_last(
    store: DynamoStore, dynamodb: FakeAws, items: list[Any]
) -> None:
    dynamodb.will_answer({"Items": items, "LastEvaluatedKey": WIRE_KEY})
    page = store.query(TIMERS, "main#001#7", "05", "06", limit=8)
    assert (len(page.items), page.more) == (len(items), "05#shop")


def test_a_full_page_without_a_position_is_the_last(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({"Items": [WIRE_KEY] * 8})
    assert store.query(TIMERS, "main#001#7", "05", "06", limit=8).more is None


INDEX: dict[str, Any] = {
    "TableName": "t-timers",
    "IndexName": "by_job",
    "KeyConditionExpression": "#p = :p",
    "ExpressionAttributeNames": {"#p": "job_id"},
    "ExpressionAttributeValues": {":p": {"S": "shop:j"}},
    "Limit": 5,
}
POSITION = KEY | {"job_id": "shop:j", "scheduled_at_ms": 60_000}
WIRE_POSITION = WIRE_KEY | {"job_id": {"S": "shop:j"}, "scheduled_at_ms": {"N": "60000"}}


@pytest.mark.parametrize("descending", [True, False])
def test_an_index_is_read_in_the_direction_asked_for_and_from_a_position(
    store: DynamoStore, dynamodb: FakeAws, descending: bool
) -> None:
    dynamodb.will_answer({"Items": [WIRE_POSITION], "LastEvaluatedKey": WIRE_POSITION}, {"Items": []})
    found = store.query_index(TIMERS, BY_JOB, "shop:j", limit=5, after=None, descending=descending)
    assert found == ([POSITION], POSITION)
    assert store.query_index(TIMERS, BY_JOB, "shop:j", limit=5, after=POSITION, descending=descending) == ([], None)
    first, second = (body for _, body in dynamodb.sent)
    assert first == INDEX | {"ScanIndexForward": not descending}
    assert second == first | {"ExclusiveStartKey": WIRE_POSITION}


def test_an_index_is_named_and_its_empty_page_is_not_the_last(store: DynamoStore, dynamodb: FakeAws) -> None:
    position = WIRE_KEY | {"dead_letter": {"S": "shop"}, "ended_at_ms": {"N": "5"}}
    dynamodb.will_answer({"Items": [], "LastEvaluatedKey": position})
    items, more = store.query_index(TIMERS, BAD_ENDS, "shop", limit=1, after=None, descending=True)
    assert (items, more) == ([], KEY | {"dead_letter": "shop", "ended_at_ms": 5})
    assert (dynamodb.body["IndexName"], dynamodb.body["ExpressionAttributeNames"]) == (
        "by_dead_letter",
        {"#p": "dead_letter"},
    )


def test_a_scan_goes_on_after_a_position_and_its_empty_page_is_not_the_last(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    dynamodb.will_answer({"Items": [], "LastEvaluatedKey": WIRE_KEY}, {"Items": [WIRE_KEY]})
    items, more = store.scan(TIMERS, limit=100, after=None)
    assert (items, more) == ([], KEY)
    assert store.scan(TIMERS, limit=100, after={**KEY, "status": "pending"}) == ([KEY], None)
    request = {"TableName": "t-timers", "Limit": 100}
    assert dynamodb.sent == [("Scan", request), ("Scan", request | {"ExclusiveStartKey": WIRE_KEY})]


def test_a_scan_of_a_table_without_sort_key_goes_on_after_the_partition_key(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    dynamodb.will_answer({"Items": []})
    store.scan(JOBS, limit=7, after={"job_id": "j001"})
    assert dynamodb.body == {"TableName": "t-jobs", "Limit": 7, "ExclusiveStartKey": {"job_id": {"S": "j001"}}}


READS = {
    "get": lambda store: store.get(TIMERS, KEY),
    "get_many": lambda store: store.get_many(TIMERS, [KEY]),
    "query": lambda store: store.query(TIMERS, "p", "0", "1", limit=1),
    "query_index": lambda store: store.query_index(TIMERS, BY_JOB, "j", limit=1, after=None, descending=True),
    "scan": lambda store: store.scan(TIMERS, limit=1, after=None),
}


@pytest.mark.parametrize(
    "answer",
    [
        Fault("ProvisionedThroughputExceededException"),
        Fault("RequestLimitExceeded"),
        Fault("ThrottlingException"),
        Fault("InternalServerError", 500),
        Fault("ServiceUnavailable", 503),
        LOST,
        UNREACHED,
    ],
    ids=str,
)
@pytest.mark.parametrize("read", READS)
def test_a_read_that_the_world_refuses_may_be_asked_again(
    store: DynamoStore, dynamodb: FakeAws, read: str, answer: Answer
) -> None:
    """Whatever became of it, nothing was written: so it is never an unknown outcome."""
    dynamodb.will_answer(*[answer] * TRIES)
    with pytest.raises(Throttled):
        READS[read](store)


@pytest.mark.parametrize("read", READS)
def test_a_read_that_was_wrong_is_a_fault_of_ours(store: DynamoStore, dynamodb: FakeAws, read: str) -> None:
    for code in ("ValidationException", "ResourceNotFoundException", "AccessDeniedException"):
        dynamodb.will_answer(Fault(code))
        with pytest.raises(InvariantViolated, match=code):
            READS[read](store)


@pytest.mark.parametrize("read", READS)
def test_the_client_repeats_a_lost_read_by_itself(store: DynamoStore, dynamodb: FakeAws, read: str) -> None:
    dynamodb.will_answer(LOST, {"Item": WIRE_KEY, "Items": [], "Responses": {"t-timers": [WIRE_KEY]}})
    READS[read](store)
    assert dynamodb.sent[0] == dynamodb.sent[1]


# --- single writes --------------------------------------------------------------------------------------------------

ALL_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def test_a_put_on_condition_that_it_is_absent(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({})
    assert store.commit([Put(TIMERS, {**KEY, "n": 1}, Absent())]) == Committed()
    assert dynamodb.sent == [
        (
            "PutItem",
            {
                "TableName": "t-timers",
                "Item": WIRE_KEY | {"n": {"N": "1"}},
                "ConditionExpression": "attribute_not_exists(#n0)",
                "ExpressionAttributeNames": {"#n0": "pk"},
                **ALL_OLD,
            },
        )
    ]


def test_a_delete_on_condition(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({})
    assert store.commit([Delete(TIMERS, KEY, Is("status", "pending"))]) == Committed()
    assert dynamodb.sent == [
        (
            "DeleteItem",
            {
                "TableName": "t-timers",
                "Key": WIRE_KEY,
                "ConditionExpression": "#n0 = :v0",
                "ExpressionAttributeNames": {"#n0": "status"},
                "ExpressionAttributeValues": {":v0": {"S": "pending"}},
                **ALL_OLD,
            },
        )
    ]


def test_an_update_names_what_it_sets_appends_and_removes_and_answers_with_the_new_item(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    dynamodb.will_answer({"Attributes": WIRE_KEY | {"token": {"N": "3"}}})
    update = Update(
        TIMERS,
        KEY,
        all_of(Is("token", 2), any_of(Missing("lease_until_ms"), Below("lease_until_ms", 99))),
        set={"token": 3, "status": "running"},
        remove=("reason", "ended_at_ms"),
        append={"attempts": [{"n": 1}]},
    )
    assert store.commit([update]) == Committed(KEY | {"token": 3})
    assert dynamodb.sent == [
        (
            "UpdateItem",
            {
                "TableName": "t-timers",
                "Key": WIRE_KEY,
                "UpdateExpression": "SET #n0 = :v0, #n1 = :v1, #n2 = list_append(if_not_exists(#n2, :v2), :v3) "
                "REMOVE #n3, #n4",
                "ConditionExpression": "(#n0 = :v4 AND (attribute_not_exists(#n5) OR #n5 < :v5))",
                "ExpressionAttributeNames": {
                    "#n0": "token",
                    "#n1": "status",
                    "#n2": "attempts",
                    "#n3": "reason",
                    "#n4": "ended_at_ms",
                    "#n5": "lease_until_ms",
                },
                "ExpressionAttributeValues": {
                    ":v0": {"N": "3"},
                    ":v1": {"S": "running"},
                    ":v2": {"L": []},
                    ":v3": {"L": [{"M": {"n": {"N": "1"}}}]},
                    ":v4": {"N": "2"},
                    ":v5": {"N": "99"},
                },
                "ReturnValues": "ALL_NEW",
                **ALL_OLD,
            },
        )
    ]


def test_an_update_that_only_removes(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({"Attributes": WIRE_KEY})
    store.commit([Update(TIMERS, KEY, Anyway("a test"), remove=("reason",))])
    assert dynamodb.body == {
        "TableName": "t-timers",
        "Key": WIRE_KEY,
        "UpdateExpression": "REMOVE #n0",
        "ExpressionAttributeNames": {"#n0": "reason"},
        "ReturnValues": "ALL_NEW",
    }


SINGLE: dict[str, Write] = {
    "put": Put(TIMERS, KEY, Absent()),
    "update": Update(TIMERS, KEY, Is("token", 1), set={"token": 2}),
    "delete": Delete(TIMERS, KEY, Is("token", 1)),
}


@pytest.mark.parametrize("write", SINGLE.values(), ids=SINGLE)
def test_a_refusal_shows_the_item_as_it_stands(store: DynamoStore, dynamodb: FakeAws, write: Write) -> None:
    standing = {"Item": WIRE_KEY | {"token": {"N": "5"}}}
    dynamodb.will_answer(Fault("ConditionalCheckFailedException", more=standing))
    dynamodb.will_answer(Fault("ConditionalCheckFailedException"))
    assert store.commit([write]) == Refused({0: KEY | {"token": 5}})
    assert store.commit([write]) == Refused({0: None})


WORLD = [
    (Fault("ProvisionedThroughputExceededException"), Throttled),
    (Fault("RequestLimitExceeded"), Throttled),
    (Fault("ThrottlingException"), Throttled),
    (Fault("LimitExceededException"), Throttled),
    (Fault("TransactionConflictException"), Conflict),
    (Fault("TransactionInProgressException"), Conflict),
    (Fault("InternalServerError", 500), OutcomeUnknown),
    (Fault("ServiceUnavailable", 503), OutcomeUnknown),
    (Fault("RequestTimeout"), OutcomeUnknown),
    (Fault("SomethingNew", 502), OutcomeUnknown),
    (LOST, OutcomeUnknown),
    (UNREACHED, OutcomeUnknown),
]
OURS = ("ValidationException", "ResourceNotFoundException", "AccessDeniedException", "ItemCollectionSizeLimitExceeded")
WRITES: dict[str, list[Write]] = {
    **{name: [write] for name, write in SINGLE.items()},
    "transaction": [SINGLE["put"], Check(LEASES, {"slice": "s"}, Is("token", 1))],
}


@pytest.mark.parametrize(("answer", "error"), WORLD, ids=str)
@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
def test_what_the_world_answers_to_a_write(
    store: DynamoStore, dynamodb: FakeAws, writes: list[Write], answer: Answer, error: type[WorldError]
) -> None:
    """As often as the client cares to repeat it."""
    dynamodb.will_answer(*[answer] * TRIES)
    with pytest.raises(WorldError) as raised:
        store.commit(writes)
    assert type(raised.value) is error
    dynamodb.forget()
    assert all(one == dynamodb.sent[0] for one in dynamodb.sent)


@pytest.mark.parametrize("code", OURS)
@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
def test_a_write_that_was_wrong_is_a_fault_of_ours_and_not_tried_again(
    store: DynamoStore, dynamodb: FakeAws, writes: list[Write], code: str
) -> None:
    dynamodb.will_answer(Fault(code))
    with pytest.raises(InvariantViolated, match=code):
        store.commit(writes)


@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
def test_a_reply_that_was_lost_once_is_asked_for_again_with_the_same_request(
    store: DynamoStore, dynamodb: FakeAws, writes: list[Write]
) -> None:
    """A repeated single write may be refused by its own first success: that is the caller's to see."""
    dynamodb.will_answer(LOST, {"Attributes": WIRE_KEY})
    assert isinstance(store.commit(writes), Committed)
    assert dynamodb.sent[0] == dynamodb.sent[1]


# --- transactions ---------------------------------------------------------------------------------------------------


def test_a_transaction_carries_each_write_with_its_condition_and_a_token(store: DynamoStore, dynamodb: FakeAws) -> None:
    dynamodb.will_answer({}, {})
    writes: list[Write] = [
        Check(LEASES, {"slice": "s"}, Is("token", 1)),
        Put(TIMERS, KEY, Absent()),
        Update(JOBS, {"job_id": "j"}, Is("version", 4), set={"next": None}),
        Delete(TIMERS, {"pk": "p", "sk": "k"}, Is("status", "pending")),
    ]
    assert store.commit(writes) == Committed()
    assert dynamodb.sent == [
        (
            "TransactWriteItems",
            {
                "TransactItems": [
                    {
                        "ConditionCheck": {
                            "TableName": "t-leases",
                            "Key": {"slice": {"S": "s"}},
                            "ConditionExpression": "#n0 = :v0",
                            "ExpressionAttributeNames": {"#n0": "token"},
                            "ExpressionAttributeValues": {":v0": {"N": "1"}},
                            **ALL_OLD,
                        }
                    },
                    {
                        "Put": {
                            "TableName": "t-timers",
                            "Item": WIRE_KEY,
                            "ConditionExpression": "attribute_not_exists(#n0)",
                            "ExpressionAttributeNames": {"#n0": "pk"},
                            **ALL_OLD,
                        }
                    },
                    {
                        "Update": {
                            "TableName": "t-jobs",
                            "Key": {"job_id": {"S": "j"}},
                            "UpdateExpression": "SET #n0 = :v0",
                            "ConditionExpression": "#n1 = :v1",
                            "ExpressionAttributeNames": {"#n0": "next", "#n1": "version"},
                            "ExpressionAttributeValues": {":v0": {"NULL": True}, ":v1": {"N": "4"}},
                            **ALL_OLD,
                        }
                    },
                    {
                        "Delete": {
                            "TableName": "t-timers",
                            "Key": {"pk": {"S": "p"}, "sk": {"S": "k"}},
                            "ConditionExpression": "#n0 = :v0",
                            "ExpressionAttributeNames": {"#n0": "status"},
                            "ExpressionAttributeValues": {":v0": {"S": "pending"}},
                            **ALL_OLD,
                        }
                    },
                ],
                "ClientRequestToken": "token-1",
            },
        )
    ]
    store.commit(writes)
    assert dynamodb.sent[1][1]["ClientRequestToken"] == "token-2", "another commit is another request"


OK = {"Code": "None"}
FAILED = {"Code": "ConditionalCheckFailed", "Message": "no", "Item": WIRE_KEY}
FAILED_ABSENT = {"Code": "ConditionalCheckFailed", "Message": "no"}


def _cancelled(*reasons: dict[str, Any]) -> Fault:
    return Fault("TransactionCanceledException", more={"CancellationReasons": list(reasons)})


TWO = WRITES["transaction"]


@pytest.mark.parametrize(
    ("reasons", "failed"),
    [
        ((OK, FAILED), {1: KEY}),
        ((FAILED, OK), {0: KEY}),
        ((FAILED_ABSENT, FAILED), {0: None, 1: KEY}),
    ],
)
def test_each_refused_write_of_a_transaction_is_told_with_its_item(
    store: DynamoStore, dynamodb: FakeAws, reasons: Any, failed: Any
) -> None:
    dynamodb.will_answer(_cancelled(*reasons))
    assert store.commit(TWO) == Refused(failed)


@pytest.mark.parametrize("other", [OK, FAILED])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("TransactionConflict", Conflict),
        ("ThrottlingError", Throttled),
        ("ProvisionedThroughputExceeded", Throttled),
    ],
)
def test_a_passing_reason_outweighs_refusals_wherever_it_stands(
    store: DynamoStore, dynamodb: FakeAws, other: Any, code: str, error: type[WorldError]
) -> None:
    passing = {"Code": code, "Message": "later"}
    for reasons in ((passing, other), (other, passing)):
        dynamodb.will_answer(_cancelled(*reasons))
        with pytest.raises(WorldError) as raised:
            store.commit(TWO)
        assert type(raised.value) is error


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded", "AccessDenied"])
def test_a_reason_of_ours_is_no_refusal(store: DynamoStore, dynamodb: FakeAws, code: str) -> None:
    for reasons in (({"Code": code}, OK), (FAILED, {"Code": code})):
        dynamodb.will_answer(_cancelled(*reasons))
        with pytest.raises(InvariantViolated, match=code):
            store.commit(TWO)


def test_a_cancelled_transaction_without_reasons_is_not_taken_for_an_answer(
    store: DynamoStore, dynamodb: FakeAws
) -> None:
    for reasons in ((), (OK, OK)):
        dynamodb.will_answer(_cancelled(*reasons))
        with pytest.raises(InvariantViolated):
            store.commit(TWO)
