"""Tokens of an issuer: which are taken, what its keys are worth while it is away, and who never gets near them."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest

from tests.support.doors import Gateway
from tests.support.fakes import FakeClock, KeptSignals, fake_ports
from tests.support.issuers import AUDIENCE, LIFE_S, URL, Desk, claims, issuer, part, private, public, token
from tests.unit.access.test_api_keys import CountingStore, spoilt
from tickwork.core.access.actors import Actor
from tickwork.core.errors import BadToken, ExpiredToken, Forbidden, IssuerAway, MalformedKey, Unauthenticated
from tickwork.core.instants import SECOND_MS
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.access.tokens import AGAIN_MS, FRESH_MS, KEPT_MS, Credentials, Tokens

OWNER = {"groups": ["tickwork-payments-owners"]}


@dataclass
class Reading:
    """A process that reads tokens."""

    desk: Desk = field(default_factory=Desk)
    store: CountingStore = field(default_factory=CountingStore)

    def __post_init__(self) -> None:
        self.ports = fake_ports(self.store)
        assert isinstance(self.ports.clock, FakeClock)
        self.clock = self.ports.clock
        self.credentials = Credentials(KnownKeys(), Tokens(issuer(), self.desk))

    def made(self, more: Mapping[str, Any] = OWNER, **how: Any) -> str:
        return token(claims(self.clock.at_ms, **more), **how)

    def show(self, text: str) -> Actor:
        return self.credentials.actor_of(self.ports, text)


@pytest.fixture
def reading() -> Reading:
    return Reading()


# --- which are taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_of_either_algorithm_makes_of_its_bearer_what_its_claims_say(reading: Reading, algorithm: str) -> None:
    reading.desk.keys = [public(algorithm, "first")]
    assert reading.show(reading.made(algorithm=algorithm)) == Actor("jwt:ann", "payments", "owner")


def test_somebody_in_two_groups_is_of_both_teams(reading: Reading) -> None:
    """X7"""
    actor = reading.show(reading.made({"groups": ["tickwork-shop-owners", "payments-look", "choir"]}))
    assert {(one.team, one.role) for one in actor.standings} == {("shop", "owner"), ("payments", "viewer")}


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://login.example.com"},
        {"iss": f"{URL}/"},
        {"iss": None},
        {"iss": [URL]},
        {"aud": "another-service"},
        {"aud": ["another-service"]},
        {"aud": None},
        {"aud": f"{AUDIENCE}-admin"},
        {"sub": None},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"exp": -1},
        {"exp": 1e300},
        {"nbf": "now"},
        {"nbf": [1]},
    ],
    ids=str,
)
def test_a_token_of_somebody_else_or_for_somebody_else_or_without_an_end_is_not_taken(
    reading: Reading, changed: dict[str, Any]
) -> None:
    with pytest.raises(BadToken):
        reading.show(reading.made(OWNER | changed))


def test_one_of_several_audiences_is_enough(reading: Reading) -> None:
    assert reading.show(reading.made(OWNER | {"aud": ["other", AUDIENCE]})).team == "payments"


def test_a_token_ends_on_its_second_and_begins_half_a_minute_early(reading: Reading) -> None:
    text = reading.made()
    reading.clock.at_ms += LIFE_S * SECOND_MS - 1_000
    reading.show(text)
    reading.clock.at_ms += 1_000
    with pytest.raises(ExpiredToken, match="expired at"):
        reading.show(text)
    second = reading.clock.at_ms // SECOND_MS
    reading.show(reading.made(OWNER | {"nbf": second + 30}))
    with pytest.raises(BadToken, match="not valid before"):
        reading.show(reading.made(OWNER | {"nbf": second + 32}))


@pytest.mark.parametrize("algorithm", ["RS512", "PS256", "ES384"])
def test_other_algorithms_are_not_taken_whatever_the_key(reading: Reading, algorithm: str) -> None:
    reading.desk.keys = [public(algorithm, "first")]
    with pytest.raises(BadToken, match="taken are RS256 and ES256"):
        reading.show(reading.made(algorithm=algorithm))
    assert reading.desk.asked == 0


def test_an_unsigned_token_and_one_signed_with_the_public_key_as_a_secret_are_not_taken(reading: Reading) -> None:
    body = part(claims(reading.clock.at_ms, **OWNER))
    for text in (
        f"{part({'alg': 'none', 'kid': 'first'})}.{body}.x",
        f"{part({'alg': 'none', 'kid': 'first'})}.{body}.",
        f"{part({'alg': ['ES256'], 'kid': 'first'})}.{body}.x",
        jwt.encode(claims(reading.clock.at_ms, **OWNER), "x" * 64, algorithm="HS256", headers={"kid": "first"}),
    ):
        with pytest.raises(Unauthenticated):
            reading.show(text)


def test_a_token_that_names_a_key_of_another_kind_than_its_algorithms_gets_none(reading: Reading) -> None:
    reading.desk.keys = [public("RS256", "first")]
    with pytest.raises(BadToken, match="has no key 'first' for ES256"):
        reading.show(reading.made(algorithm="ES256"))


@pytest.mark.parametrize("said", [{"use": "enc"}, {"alg": "RS512"}, {"alg": "HS256"}])
def test_a_key_that_is_not_for_signing_by_that_algorithm_proves_nothing(reading: Reading, said: dict[str, str]) -> None:
    reading.desk.keys = [public("ES256", "first", **said)]
    with pytest.raises(BadToken, match="has no key"):
        reading.show(reading.made())


def test_a_forged_signature_is_not_taken(reading: Reading) -> None:
    """By another key under the same name; a changed claim; a signature of another token."""
    forged = token(claims(reading.clock.at_ms, **OWNER), key="another", headers={"kid": "first"})
    head, body, signature = reading.made().split(".")
    richer = part(claims(reading.clock.at_ms, groups=["tickwork-shop-owners"]))
    other = reading.made({"groups": []}).split(".")[2]
    for text in (forged, f"{head}.{richer}.{signature}", f"{head}.{body}.{other}", f"{head}.{body}.{'A' * 86}"):
        with pytest.raises(BadToken):
            reading.show(text)


def test_a_key_that_the_token_brings_along_proves_nothing(reading: Reading) -> None:
    own = public("ES256", "another")
    for header in ({"jwk": own}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/cert"}):
        text = token(claims(reading.clock.at_ms, **OWNER), key="another", headers={"kid": "first", **header})
        with pytest.raises(BadToken):
            reading.show(text)


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": ["b64"], "b64": False}, {"crit": []}], ids=str)
def test_a_token_that_asks_to_be_read_in_a_way_of_its_own_is_not_taken(
    reading: Reading, header: dict[str, Any]
) -> None:
    """However well it is signed."""
    reading.show(_signed_by_hand(reading, {}))
    with pytest.raises(BadToken):
        reading.show(_signed_by_hand(reading, header))


def _signed_by_hand(reading: Reading, header: dict[str, Any]) -> str:
    text = f"{part({'alg': 'ES256', 'kid': 'first', **header})}.{part(claims(reading.clock.at_ms, **OWNER))}"
    kind = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    signature = kind.sign(text.encode(), private("ES256", "first"))  # type: ignore[arg-type]
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def test_a_key_that_is_too_short_proves_nothing(reading: Reading) -> None:
    reading.desk.keys = [public("RS256", "short")]
    with pytest.raises(BadToken):
        reading.show(reading.made(algorithm="RS256", key="short"))


def test_a_token_without_a_key_id_goes_by_the_only_key_there_is_and_by_none_of_two(reading: Reading) -> None:
    assert reading.show(reading.made(headers={})).team == "payments"
    reading.desk.keys.append(public("ES256", "second"))
    reading.clock.at_ms += FRESH_MS
    with pytest.raises(BadToken):
        reading.show(reading.made(headers={}))


def test_a_thousand_garbled_tokens_open_nothing_ask_nobody_twice_and_read_no_store(reading: Reading) -> None:
    text, rng = reading.made(), random.Random(5)
    before = reading.store.calls.copy()
    opened = 0
    for _ in range(1_000):
        try:
            opened += reading.show(spoilt(text, rng)).team != ""
        except Unauthenticated:
            continue
    assert opened == 0
    assert reading.desk.asked <= 1
    assert reading.store.calls == before


def test_a_token_longer_than_a_header_is_no_token(reading: Reading) -> None:
    with pytest.raises(Unauthenticated):
        reading.show(reading.made(OWNER | {"pad": "x" * 9_000}))
    assert reading.desk.asked == 0


def test_where_no_issuer_is_configured_a_token_is_told_so(reading: Reading) -> None:
    with pytest.raises(MalformedKey, match="no issuer of tokens is configured"):
        Credentials(KnownKeys()).actor_of(reading.ports, reading.made())


def test_no_match_says_which_claims_were_seen_and_which_rules_were_tried(reading: Reading) -> None:
    """X7; of the other claims of the token nothing."""
    with pytest.raises(Forbidden) as refused:
        reading.show(reading.made({"groups": ["choir", "payments"], "email": "ann@example.org"}))
    said = refused.value.detail
    assert "groups = 'choir', 'payments'" in said
    assert "groups=tickwork-{team}-owners, groups=payments-look" in said
    assert "example.org" not in said
    with pytest.raises(Forbidden, match="seen were none of the claims groups"):
        reading.show(reading.made({}))


# --- the issuer's keys ------------------------------------------------------------------------------------------


def test_the_issuer_is_asked_once_for_many_tokens(reading: Reading) -> None:
    for _ in range(50):
        reading.show(reading.made())
        reading.clock.at_ms += SECOND_MS
    assert reading.desk.asked == 1


def test_a_new_key_is_known_at_its_first_token(reading: Reading) -> None:
    reading.show(reading.made())
    reading.desk.keys.append(public("ES256", "second"))
    reading.clock.at_ms += AGAIN_MS
    assert reading.show(reading.made(key="second")).team == "payments"
    assert reading.desk.asked == 2


def test_a_withdrawn_key_is_forgotten_in_a_quarter_of_an_hour(reading: Reading) -> None:
    reading.show(reading.made())
    reading.desk.keys = [public("ES256", "second")]
    reading.clock.at_ms += FRESH_MS - 1
    reading.show(reading.made())
    reading.clock.at_ms += 1
    with pytest.raises(BadToken):
        reading.show(reading.made())


def test_a_flood_of_unknown_keys_asks_the_issuer_once_in_ten_seconds(reading: Reading) -> None:
    for n in range(1_000):
        with pytest.raises(BadToken):
            reading.show(token(claims(reading.clock.at_ms, **OWNER), headers={"kid": f"made-up-{n}"}))
        reading.clock.at_ms += 100
    assert reading.desk.asked <= 1 + 1_000 * 100 // AGAIN_MS
    assert reading.show(reading.made()).team == "payments"


def test_while_the_issuer_is_away_its_known_keys_go_on(reading: Reading) -> None:
    reading.show(reading.made())
    reading.desk.is_away = True
    step_ms, asked = 10 * 60 * SECOND_MS, reading.desk.asked
    for _ in range((KEPT_MS - 1) // step_ms):
        reading.clock.at_ms += step_ms
        assert reading.show(reading.made()).team == "payments"
    assert reading.desk.asked - asked <= KEPT_MS // step_ms
    signals = reading.ports.signals
    assert isinstance(signals, KeptSignals)
    assert "issuer_not_asked" in {action for action, _ in signals.lines}


def test_an_issuer_that_is_away_for_a_day_is_believed_no_more(reading: Reading) -> None:
    reading.show(reading.made())
    reading.desk.is_away = True
    reading.clock.at_ms += KEPT_MS
    with pytest.raises(IssuerAway):
        reading.show(reading.made())
    reading.desk.is_away = False
    reading.clock.at_ms += AGAIN_MS
    assert reading.show(reading.made()).team == "payments"


def test_a_process_that_never_reached_the_issuer_says_so_and_is_well_again_when_it_does(reading: Reading) -> None:
    reading.desk.is_away = True
    for _ in range(20):
        with pytest.raises(IssuerAway):
            reading.show(reading.made())
    assert reading.desk.asked == 1
    reading.desk.is_away = False
    reading.clock.at_ms += AGAIN_MS
    assert reading.show(reading.made()).team == "payments"


@pytest.mark.parametrize("document", [None, [], {}, {"keys": {}}, {"keys": None}, "keys"])
def test_a_document_without_keys_replaces_none_that_are_known(reading: Reading, document: Any) -> None:
    reading.show(reading.made())
    reading.desk.published = lambda _: document  # type: ignore[method-assign]
    reading.clock.at_ms += FRESH_MS
    assert reading.show(reading.made()).team == "payments"


def test_a_key_that_cannot_be_read_costs_the_tokens_that_name_it(reading: Reading) -> None:
    """And no others: `x` is missing, a number is none, a secret is among them."""
    broken = [{"kty": "EC", "crv": "P-256", "kid": "broken"}, {"kty": "RSA", "kid": 7, "n": 5}]
    reading.desk.keys = [*broken, {"kty": "oct", "k": "AA"}, public("ES256", "first"), "no key"]  # type: ignore[list-item]
    assert reading.show(reading.made()).team == "payments"
    with pytest.raises(BadToken):
        reading.show(reading.made(headers={"kid": "broken"}))


# --- through the second door ------------------------------------------------------------------------------------


def _problem(answer: Any) -> str:
    return str(answer.get("type", answer)).removeprefix("urn:tickwork:problem:")


def test_at_the_second_door_a_forged_token_is_sent_away_and_an_expired_or_unmapped_one_hears_why(
    reading: Reading,
) -> None:
    gateway = Gateway(reading.ports, bearers=lambda keys: Credentials(keys, Tokens(issuer(), reading.desk)))

    def ask(text: str) -> tuple[int, str]:
        status, answer = gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")
        return status, "" if status == 200 else _problem(answer)

    assert ask(reading.made()) == (200, "")
    assert ask(reading.made({"groups": ["choir"]})) == (403, "forbidden")
    old = reading.made()
    reading.clock.at_ms += LIFE_S * SECOND_MS
    assert ask(old) == (401, "expired-token")
    forged = token(claims(reading.clock.at_ms, **OWNER), key="another", headers={"kid": "first"})
    assert ask(forged) == (403, "{'message': 'Forbidden'}")


def test_a_token_that_the_gateway_remembers_ends_on_its_second_all_the_same(reading: Reading) -> None:
    """The API judges it by its own clock."""
    gateway = Gateway(reading.ports, bearers=lambda keys: Credentials(keys, Tokens(issuer(), reading.desk)))
    text = reading.made(OWNER | {"exp": reading.clock.at_ms // SECOND_MS + 5})
    seen = []
    for _ in range(8):
        seen.append(gateway.with_key(f"Bearer {text}", "GET", "/jobs", team="payments")[0])
        reading.clock.at_ms += SECOND_MS
    assert seen == [200] * 5 + [401] * 3


def test_an_issuer_that_is_away_is_a_fault_of_the_door_and_no_refusal(reading: Reading) -> None:
    reading.desk.is_away = True
    gateway = Gateway(reading.ports, bearers=lambda keys: Credentials(keys, Tokens(issuer(), reading.desk)))
    with pytest.raises(IssuerAway):
        gateway.with_key(f"Bearer {reading.made()}", "GET", "/jobs", team="payments")


def test_keys_made_for_these_tests_are_what_they_say() -> None:
    assert private("RS256", "first").key_size == 2_048
    assert private("RS256", "short").key_size == 1_024
