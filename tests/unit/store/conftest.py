from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.fake_aws import ENDPOINT, FakeAws
from tickwork.aws import wiring
from tickwork.aws.sqs import SqsReceiver, SqsSender
from tickwork.store.dynamodb import DynamoStore


@pytest.fixture(autouse=True, scope="module")
def _credentials() -> Iterator[None]:
    """The client signs, with made-up credentials; a session that has read them is not for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "1"),
            ("AWS_SECRET_ACCESS_KEY", "2"),
            ("AWS_DEFAULT_REGION", "eu-central-1"),
        ):
            patch.setenv(name, value)
        wiring._session.cache_clear()
        yield
        wiring._session.cache_clear()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client does not wait between its own repetitions."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


@pytest.fixture
def dynamodb() -> Iterator[FakeAws]:
    """Each test uses up its script."""
    fake = FakeAws(wiring.dynamodb_client(ENDPOINT))
    yield fake
    assert not fake.unanswered


@pytest.fixture
def store(dynamodb: FakeAws) -> DynamoStore:
    numbers = itertools.count(1)
    return DynamoStore(dynamodb.client, "t", lambda: f"token-{next(numbers)}")


@pytest.fixture
def sqs() -> Iterator[FakeAws]:
    fake = FakeAws(wiring.sqs_client(ENDPOINT))
    yield fake
    assert not fake.unanswered


@pytest.fixture
def sender(sqs: FakeAws) -> SqsSender:
    return SqsSender(sqs.client, "t", sends_at_once=1)


@pytest.fixture
def receiver(sqs: FakeAws) -> SqsReceiver:
    return SqsReceiver(sqs.client, "t")
