"""The doors of a deployed API: what is sent away at them, what is told behind them, and what opens nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.doors import ARN, Authorizer, Gateway, asked, signed_by
from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.access.test_api_keys import CountingStore, Desk, spoilt
from tickwork.api.gate import DeployedGate
from tickwork.core.access.actors import parse_rules
from tickwork.core.access.api_keys import key_text
from tickwork.core.errors import Throttled
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.flows.access import keys
from tickwork.flows.access.authenticating import TRUSTED_MS, SeenKeys

EVERYBODY = parse_rules("*=>platform/platform")


@pytest.fixture
def desk() -> Desk:
    return Desk()


def _problem(answer: Any) -> str:
    return str(answer["type"]).removeprefix("urn:tickwork:problem:")


# --- the authorizer ---------------------------------------------------------------------------------------------


def test_a_valid_key_is_let_on_and_named_for_the_log(desk: Desk) -> None:
    key_id, text = desk.make()
    answer = Authorizer(desk.ports).answer(asked(f"Bearer {text}"))
    assert answer == {"isAuthorized": True, "context": {"actor": f"key:{key_id}"}}


def test_looking_at_a_key_writes_nothing(desk: Desk) -> None:
    _, text = desk.make()
    before = desk.store.calls["commit"]
    Authorizer(desk.ports).answer(asked(f"Bearer {text}"))
    assert desk.store.calls["commit"] == before


def test_a_thousand_that_are_no_keys_are_sent_away_without_a_read(desk: Desk) -> None:
    _, text = desk.make()
    rng, authorizer = random.Random(11), Authorizer(desk.ports)
    before = desk.store.calls.copy()
    for _ in range(1_000):
        assert not authorizer.answer(asked(f"Bearer {spoilt(text, rng)}"))["isAuthorized"]
    assert desk.store.calls == before


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Bearer ", "bearer  ", "Basic dXNlcjpwYXNz", "AWS4-HMAC-SHA256 Credential=x", "tw_payments_x"],
)
def test_what_is_no_bearer_credential_is_sent_away_without_a_read(desk: Desk, shown: str) -> None:
    before = desk.store.calls.copy()
    assert not Authorizer(desk.ports).answer(asked(shown))["isAuthorized"]
    assert desk.store.calls == before


def test_an_event_without_its_identity_source_or_with_two_is_sent_away(desk: Desk) -> None:
    _, text = desk.make()
    for sources in ([], None, [f"Bearer {text}", f"Bearer {text}"]):
        event = asked(f"Bearer {text}") | {"identitySource": sources}
        assert not Authorizer(desk.ports).answer(event)["isAuthorized"]


def test_an_answer_hangs_on_the_identity_source_alone(desk: Desk) -> None:
    """API Gateway remembers it by that: a header beside it must not make it another."""
    _, text = desk.make()
    event = asked("Bearer tw_payments_no")
    event["headers"]["authorization"] = f"Bearer {text}"
    assert not Authorizer(desk.ports).answer(event)["isAuthorized"]


def test_a_key_that_nobody_made_is_sent_away_at_the_door(desk: Desk) -> None:
    answer = Authorizer(desk.ports).answer(asked(f"Bearer {key_text('payments', b'x' * 32)}"))
    assert answer == {"isAuthorized": False, "context": {"refused": "unknown-key"}}


def test_a_store_that_does_not_answer_is_nobodys_fault_and_is_not_remembered_as_a_refusal(desk: Desk) -> None:
    _, text = desk.make()

    class Away(CountingStore):
        def get(self, *_: object) -> None:
            raise Throttled("slow down")

    with pytest.raises(Throttled):
        Authorizer(fake_ports(Away())).answer(asked(f"Bearer {text}"))


# --- both doors -------------------------------------------------------------------------------------------------


def test_a_key_that_ended_is_told_so_by_the_api(desk: Desk) -> None:
    gateway = Gateway(desk.ports)
    revoked_id, revoked = desk.make()
    _, expired = desk.make(days=1)
    keys.revoke_key(desk.ports, revoked_id, desk.show(desk.make(role="owner")[1]))
    desk.clock.at_ms += DAY_MS
    for text, kind in ((revoked, "revoked-key"), (expired, "expired-key")):
        status, answer = gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")
        assert (status, _problem(answer)) == (401, kind)


def test_a_call_by_a_remembered_key_asks_neither_authorizer_nor_store(desk: Desk) -> None:
    gateway = Gateway(desk.ports)
    _, text = desk.make()
    gateway.with_key(f"Bearer {text}", "GET", "/keys", team="payments")
    before, calls = desk.store.calls["get keys"], gateway.authorizers[0].calls
    for path in ("/jobs", "/runs", "/timers"):
        assert gateway.with_key(f"Bearer {text}", "GET", path, team="payments")[0] in (200, 422)
    assert (desk.store.calls["get keys"], gateway.authorizers[0].calls) == (before, calls)


def test_what_is_remembered_for_one_route_gives_no_role_at_another(desk: Desk) -> None:
    gateway = Gateway(desk.ports)
    _, text = desk.make()
    assert gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")[0] == 200
    status, answer = gateway.with_key(f"Bearer {text}", "DELETE", "/jobs/payments:nightly")
    assert (status, _problem(answer)) == (403, "forbidden")


def _events_of_a_minute() -> Iterator[tuple[int, int]]:
    """(when the key is used first, how long before the revocation)"""
    yield from ((first_s, before_s) for first_s in range(0, 60, 7) for before_s in (1, 10, 24, 29, 31))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_revoked_key_is_refused_within_a_minute_whatever_remembers_it(processes: int) -> None:
    """The gateway, and two processes behind each door, each of which has read the key at its own time."""
    longest_s = 0
    for first_s, before_s in _events_of_a_minute():
        desk = Desk()
        gateway = Gateway(desk.ports, processes=processes)
        key_id, text = desk.make()
        desk.clock.at_ms += first_s * SECOND_MS
        for _ in range(before_s):
            assert gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")[0] == 200
            desk.clock.at_ms += SECOND_MS
        keys.revoke_key(desk.ports, key_id, desk.show(desk.make(role="owner")[1]))
        for second in range(120):
            if gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")[0] == 200:
                longest_s = max(longest_s, second)
            desk.clock.at_ms += SECOND_MS
    assert 0 < longest_s < 60


def test_a_process_that_was_frozen_trusts_nothing_it_read_before(desk: Desk) -> None:
    """Its monotonic clock may have stood still with it."""
    key_id, text = desk.make()
    seen = SeenKeys()
    seen.actor_of(desk.ports, text)
    keys.revoke_key(desk.ports, key_id, desk.show(desk.make(role="owner")[1]))
    stood_still = desk.clock.monotonic_ms()
    desk.clock.at_ms += TRUSTED_MS
    desk.clock.monotonic_ms = lambda: stood_still  # type: ignore[method-assign]
    reads = desk.store.calls["get keys"]
    with pytest.raises(Exception, match="was revoked"):
        seen.actor_of(desk.ports, text)
    assert desk.store.calls["get keys"] == reads + 1


# --- what opens nothing -----------------------------------------------------------------------------------------


def _deployed(desk: Desk, **headers: str) -> ApiUnderTest:
    api = ApiUnderTest(desk.ports, DeployedGate(EVERYBODY))
    api.headers = dict(headers)
    return api


def _read(api: ApiUnderTest) -> tuple[int, str]:
    status, answer = api.call("GET", "/jobs", team="payments")
    return status, "" if status < 400 else _problem(answer)


@pytest.mark.parametrize("authorizer", [{}, None, {"jwt": {"claims": {"sub": "ann"}}}, {"actor": "key:platform:1"}])
def test_an_event_that_passed_neither_door_opens_nothing_whatever_it_shows(desk: Desk, authorizer: Any) -> None:
    _, text = desk.make()
    for headers in ({}, {"authorization": f"Bearer {text}"}, {"x-amz-user-arn": ARN}):
        api = _deployed(desk, **headers)
        api.authorizer = authorizer
        assert _read(api) == (401, "no-credential")


def test_what_the_second_door_says_of_the_caller_is_not_believed(desk: Desk) -> None:
    """It let him on; who he is stands in his credential."""
    context = {"actor": "key:platform:0123456789abcdef", "team": "platform", "role": "platform"}
    for headers, answer in (
        ({}, (401, "no-credential")),
        ({"authorization": "Bearer tw_payments_no"}, (401, "malformed-key")),
        ({"authorization": f"Bearer {key_text('payments', b'x' * 32)}"}, (401, "unknown-key")),
        ({"authorization": f"Bearer {desk.make(team='shop')[1]}"}, (404, "not-found")),
    ):
        api = _deployed(desk, **headers)
        api.authorizer = {"lambda": context}
        assert _read(api) == answer


def test_a_door_that_says_nothing_of_the_caller_is_the_second_one_all_the_same(desk: Desk) -> None:
    _, text = desk.make()
    for context in ({}, None):
        api = _deployed(desk, Authorization=f"bearer {text}")
        api.authorizer = {"lambda": context}
        assert _read(api) == (200, "")


def test_headers_that_say_who_calls_say_nothing(desk: Desk) -> None:
    _, text = desk.make(team="shop")
    forged = {"x-actor": "local", "x-tickwork-team": "platform", "x-amzn-user-arn": ARN, "x-amz-security-token": "t"}
    api = _deployed(desk, authorization=f"Bearer {text}", **forged)
    api.authorizer = {"lambda": {}}
    assert _read(api) == (404, "not-found")


def test_at_the_first_door_the_signature_counts_and_a_key_beside_it_is_not_looked_at(desk: Desk) -> None:
    """Neither more nor less than the principal may: of two proofs the client would choose one."""
    _, owner = desk.make(role="owner")
    api = ApiUnderTest(desk.ports, DeployedGate(parse_rules("PaymentsDeploy=>shop/viewer")))
    api.authorizer = signed_by(ARN)
    before = desk.store.calls["get keys"]
    for shown in (f"Bearer {owner}", "Bearer tw_payments_no", "AWS4-HMAC-SHA256 Credential=..."):
        api.headers = {"authorization": shown}
        assert api.call("GET", "/jobs", team="payments")[0] == 404
        assert api.call("GET", "/jobs", team="shop")[0] == 200
    assert desk.store.calls["get keys"] == before


@pytest.mark.parametrize("iam", [{}, None, {"userArn": None}, {"userArn": ""}, {"userId": "AIDA", "accountId": "1"}])
def test_a_signature_without_a_principal_is_nobodys_also_where_everybody_is_let_in(desk: Desk, iam: Any) -> None:
    api = _deployed(desk)
    api.authorizer = {"iam": iam}
    assert _read(api) == (401, "no-credential")


def test_nobody_comes_in_by_the_first_door_unsigned_or_by_the_second_without_a_key(desk: Desk) -> None:
    gateway = Gateway(desk.ports)
    assert gateway.signed(None, "GET", "/jobs") == (403, {"message": "Forbidden"})
    assert gateway.with_key(None, "GET", "/jobs") == (401, {"message": "Unauthorized"})
    assert gateway.authorizers[0].calls == 0
