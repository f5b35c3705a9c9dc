"""Keys: what is one is known without asking anybody, and what it opens is asked of the store and the clock."""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.fakes import FakeClock, KeptSignals, fake_ports
from tickwork.aws.clock import RandomIds
from tickwork.core.access import api_keys
from tickwork.core.access.actors import LOCAL, Actor
from tickwork.core.access.api_keys import KEYS_PER_TEAM_MAX, PATTERN, SHOWN_AFTER_END_S, key_text, read_key, secret_of
from tickwork.core.errors import (
    ExpiredKey,
    Forbidden,
    InvalidField,
    MalformedKey,
    OutcomeUnknown,
    RevokedKey,
    Throttled,
    TooMany,
    Unauthenticated,
    UnknownKey,
)
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS
from tickwork.core.ledger.tables import KEYS, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Update, Write
from tickwork.flows.access import keys
from tickwork.flows.access.authenticating import TRUSTED_MS, KnownKeys, SeenKeys
from tickwork.flows.access.keys import Wanted
from tickwork.ports import Ports
from tickwork.testing.memory import MemoryStore

OWNER = Actor("key:payments:x", "payments", "owner")


class CountingStore(MemoryStore):
    """Counts its calls, and fails those that a test asks it to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.lost: list[Exception] = []
        """Raised after the write was made: its reply is lost."""
        self.refused: list[Exception] = []

    def get(self, table: Table, key: Item) -> Item | None:
        self.calls[f"get {table.name}"] += 1
        return super().get(table, key)

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        self.calls["commit"] += 1
        if self.refused:
            raise self.refused.pop()
        done = super().commit(writes)
        if self.lost:
            raise self.lost.pop()
        return done


@dataclass
class Desk:
    """Where keys are made and shown."""

    store: CountingStore = field(default_factory=CountingStore)
    known: KnownKeys = field(default_factory=KnownKeys)

    def __post_init__(self) -> None:
        self.ports: Ports = fake_ports(self.store)
        assert isinstance(self.ports.clock, FakeClock)
        self.clock = self.ports.clock

    def make(self, days: int = 30, **fields: Any) -> tuple[str, str]:
        """(key_id, text)"""
        ends_at_ms = self.clock.at_ms + days * DAY_MS
        wanted = replace(Wanted("payments", "viewer", ends_at_ms), **fields)
        key, text = keys.create_key(self.ports, wanted, LOCAL)
        return key.key_id, text

    def show(self, text: str, known: KnownKeys | None = None) -> Actor:
        return (known or self.known).actor_of(self.ports, text)


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- what is a key ----------------------------------------------------------------------------------------------


def spoilt(text: str, rng: random.Random) -> str:
    """The key, with one thing wrong."""
    at = rng.randrange(len(text))
    other = rng.choice((string.ascii_letters + string.digits).replace(text[at], ""))
    turned = [index for index, one in enumerate(text) if one.swapcase() != one]
    swapped = rng.choice(turned)
    return rng.choice(
        [
            text[:at],
            text[at + 1 :],
            text[:at] + other + text[at + 1 :],
            text[:swapped] + text[swapped].swapcase() + text[swapped + 1 :],
            text + other,
            text.upper(),
            text.lower(),
            text[:-6] + "".join(rng.choices(string.ascii_letters, k=6)),
            f"tw_payments_{''.join(rng.choices(string.ascii_letters + string.digits, k=49))}",
            "".join(rng.choices(string.printable, k=rng.randrange(200))),
        ]
    )


def test_a_thousand_strings_that_are_no_keys_are_refused_without_a_read(desk: Desk) -> None:
    _, text = desk.make()
    rng = random.Random(7)
    before = desk.store.calls.copy()
    for _ in range(1_000):
        with pytest.raises(MalformedKey):
            desk.show(spoilt(text, rng))
    assert desk.store.calls == before


def test_a_megabyte_is_refused_as_fast_as_a_word(desk: Desk) -> None:
    with pytest.raises(MalformedKey):
        desk.show("tw_" + "a" * 1_000_000)


def test_the_pattern_of_scanners_finds_keys_and_the_checksum_tells_them_from_hashes() -> None:
    rng = random.Random(1)
    for number in range(2_000):
        text = key_text("shop.eu-1", secret_of([str(number)]))
        assert re.fullmatch(PATTERN, text)
        assert read_key(text)[0].startswith("shop.eu-1:")
    alphabet = string.ascii_letters + string.digits
    looks = [f"tw_shop_{''.join(rng.choices(alphabet, k=49))}" for _ in range(5_000)]
    assert not [one for one in looks if _is_key(one)]


def _is_key(text: str) -> bool:
    try:
        read_key(text)
    except MalformedKey:
        return False
    return True


def test_production_draws_the_ids_that_keys_are_made_of_from_the_systems_randomness() -> None:
    """Each digit but the one that names the kind of a uuid takes every value: 76 bits of each draw."""
    drawn = [RandomIds().unique() for _ in range(2_000)]
    values = [len({one[at] for one in drawn}) for at in range(20)]
    assert sorted(values) == [1, 4, *[16] * 18]
    assert keys.DRAWS * (18 * 4 + 2) >= api_keys.SECRET_BITS


# --- what is stored ---------------------------------------------------------------------------------------------


def test_what_is_stored_and_logged_of_a_key_does_not_open_anything(desk: Desk) -> None:
    key_id, text = desk.make()
    secret = text.rpartition("_")[2]
    signals = desk.ports.signals
    assert isinstance(signals, KeptSignals)
    seen = repr((desk.store.scan(KEYS, limit=10, after=None), signals.lines))
    assert key_id in seen
    assert secret not in seen
    assert secret[:20] not in seen


def test_a_key_whose_answer_was_lost_at_the_store_is_made_once(desk: Desk) -> None:
    desk.store.lost = [OutcomeUnknown("no reply")]
    key_id, text = desk.make()
    assert [key.key_id for key in keys.list_keys(desk.ports, "payments")] == [key_id]
    assert desk.show(text).team == "payments"


def test_a_key_that_another_version_wrote_costs_the_list_that_one_only(desk: Desk) -> None:
    key_id, _ = desk.make()
    bad, _ = desk.make()
    item = desk.store.get(KEYS, {"key_id": bad})
    assert item is not None
    broken = Update(KEYS, {"key_id": bad}, api_keys.Is("hash", item["hash"]), set={"pools": 7})
    assert isinstance(desk.store.commit([broken]), Committed)
    assert [key.key_id for key in keys.list_keys(desk.ports, "payments")] == [key_id]


# --- what it opens ----------------------------------------------------------------------------------------------


def test_a_key_stands_for_its_team_and_role_and_not_for_a_person(desk: Desk) -> None:
    key_id, text = desk.make(role="worker", pools=("payments",))
    assert desk.show(text) == Actor(f"key:{key_id}", "payments", "worker", ("payments",))


def test_expired_revoked_and_unknown_are_told_apart(desk: Desk) -> None:
    revoked_id, revoked_text = desk.make()
    keys.revoke_key(desk.ports, revoked_id, LOCAL)
    _, expired = desk.make(days=1)
    unknown = key_text("payments", secret_of(["never made"]))
    desk.clock.at_ms += DAY_MS
    for text, error in ((revoked_text, RevokedKey), (expired, ExpiredKey), (unknown, UnknownKey)):
        with pytest.raises(Unauthenticated) as told:
            desk.show(text)
        assert type(told.value) is error


def test_a_key_whose_first_digits_are_anothers_is_unknown(desk: Desk) -> None:
    """Sixteen digits find the item; all of them have to agree."""
    _, text = desk.make()
    key_id, digest = read_key(text)
    item = desk.store.get(KEYS, {"key_id": key_id})
    assert api_keys.stored_key(item, key_id, digest).hash == digest
    with pytest.raises(UnknownKey):
        api_keys.stored_key(item, key_id, digest[:-1] + ("0" if digest[-1] != "0" else "1"))


def test_a_key_is_valid_up_to_its_last_millisecond_and_the_clock_is_asked_each_time(desk: Desk) -> None:
    _, text = desk.make(days=1)
    desk.clock.at_ms += DAY_MS - 1
    assert desk.show(text).role == "viewer"
    desk.clock.at_ms += 1
    with pytest.raises(ExpiredKey):
        desk.show(text)


def test_a_revoked_key_is_refused_within_a_minute_in_every_process(desk: Desk) -> None:
    key_id, text = desk.make()
    first, second = KnownKeys(), KnownKeys()
    for known in (first, second):
        desk.show(text, known)
    keys.revoke_key(desk.ports, key_id, LOCAL)
    desk.clock.at_ms += TRUSTED_MS
    assert TRUSTED_MS < 60 * SECOND_MS
    for known in (first, second):
        with pytest.raises(RevokedKey):
            desk.show(text, known)


@pytest.mark.parametrize(("slow", "notes"), [("get", False), ("commit", True)])
def test_what_a_slow_table_has_told_is_trusted_from_the_question_on(desk: Desk, slow: str, notes: bool) -> None:
    """An answer says how it was when it was asked for, or a little later; it may have come long after that."""
    key_id, text = desk.make()
    known = KnownKeys() if notes else SeenKeys()
    done = getattr(desk.store, slow)

    def slowly(*asked: Any) -> Any:
        found = done(*asked)
        setattr(desk.store, slow, done)
        keys.revoke_key(desk.ports, key_id, LOCAL)
        desk.clock.at_ms += TRUSTED_MS - 1
        return found

    setattr(desk.store, slow, slowly)
    assert known.actor_of(desk.ports, text).team == "payments"
    desk.clock.at_ms += 1
    with pytest.raises(RevokedKey):
        known.actor_of(desk.ports, text)


def test_an_owner_of_the_platforms_team_makes_keys_of_other_teams_and_none_of_the_platform(desk: Desk) -> None:
    of_platform = Actor("key:platform:x", "platform", "owner")
    ends_at_ms = desk.clock.at_ms + DAY_MS
    assert keys.create_key(desk.ports, Wanted("payments", "viewer", ends_at_ms), of_platform)[0].role == "viewer"
    for role in ("platform", "viewer"):
        with pytest.raises(Forbidden):
            keys.create_key(desk.ports, Wanted("platform", role, ends_at_ms), of_platform)  # type: ignore[arg-type]


def test_a_call_costs_no_read_while_what_was_read_is_young(desk: Desk) -> None:
    _, text = desk.make()
    desk.show(text)
    before = desk.store.calls.copy()
    for _ in range(100):
        desk.show(text)
    assert desk.store.calls == before


def test_the_last_use_is_written_once_an_hour_at_most(desk: Desk) -> None:
    _, text = desk.make()
    before = desk.store.calls["commit"]
    for _ in range(6 * 60):
        desk.show(text)
        desk.clock.at_ms += 60 * SECOND_MS
    assert desk.store.calls["commit"] - before == 6
    (key,) = keys.list_keys(desk.ports, "payments")
    assert desk.clock.at_ms - key.used_at_ms <= HOUR_MS


def test_the_newest_keys_come_first_and_those_of_one_instant_by_id(desk: Desk) -> None:
    made = []
    for _ in range(3):
        made.append(sorted((desk.make()[0], desk.make()[0])))
        desk.clock.at_ms += SECOND_MS
    assert [key.key_id for key in keys.list_keys(desk.ports, "payments")] == [*made[2], *made[1], *made[0]]


def test_a_process_that_has_read_the_key_long_ago_writes_no_use_within_the_hour_of_anothers(desk: Desk) -> None:
    """Each process knows the key as it read it: the store says whether a use has been noted since."""
    _, text = desk.make()
    (before,) = keys.list_keys(desk.ports, "payments")
    desk.show(text)
    for passed_ms in (SECOND_MS, HOUR_MS - 1, HOUR_MS):
        write = api_keys.use(before, desk.clock.at_ms + passed_ms)
        assert write is not None
        noted = desk.ports.store.commit([write])
        assert isinstance(noted, Committed if passed_ms == HOUR_MS else Refused), passed_ms


def test_a_use_that_cannot_be_written_costs_nobody_the_call(desk: Desk) -> None:
    _, text = desk.make()
    desk.store.refused = [Throttled("slow down")]
    assert desk.show(text).team == "payments"


def test_a_revocation_stays_when_a_use_is_noted_after_it(desk: Desk) -> None:
    key_id, text = desk.make()
    desk.show(text)
    desk.clock.at_ms += HOUR_MS - SECOND_MS
    desk.show(text)  # read anew
    keys.revoke_key(desk.ports, key_id, LOCAL)
    desk.clock.at_ms += SECOND_MS
    desk.show(text)  # trusted for some seconds more, and the use is written
    assert keys.get_key(desk.ports, key_id).revoked_at_ms > 0
    with pytest.raises(RevokedKey):
        desk.show(text)


def test_revoking_again_is_a_no_op_and_one_whose_reply_was_lost_took_effect(desk: Desk) -> None:
    key_id, _ = desk.make()
    desk.store.lost = [OutcomeUnknown("no reply")]
    assert keys.revoke_key(desk.ports, key_id, LOCAL)[1]
    desk.clock.at_ms += SECOND_MS
    key, changed = keys.revoke_key(desk.ports, key_id, OWNER)
    assert not changed
    assert key.revoked_by == "local"


def test_of_two_who_revoke_at_once_one_has_done_it(desk: Desk) -> None:
    key_id, _ = desk.make()
    commit = desk.store.commit

    def another_is_faster(writes: Any) -> Any:
        desk.store.commit = commit  # type: ignore[method-assign]
        desk.clock.at_ms += 1  # entries of one instant, actor and request are one
        assert keys.revoke_key(desk.ports, key_id, LOCAL)[1]
        return commit(writes)

    desk.store.commit = another_is_faster  # type: ignore[method-assign]
    key, changed = keys.revoke_key(desk.ports, key_id, OWNER)
    assert (changed, key.revoked_by) == (False, "local")


def test_a_warning_stands_from_fourteen_days_before_the_end(desk: Desk) -> None:
    key_id, text = desk.make(days=30)
    desk.clock.at_ms += 16 * DAY_MS - 1
    assert keys.get_key(desk.ports, key_id).warning_at(desk.clock.at_ms) is None
    desk.clock.at_ms += 1
    assert "rotate" in str(keys.get_key(desk.ports, key_id).warning_at(desk.clock.at_ms))
    desk.show(text)
    signals = desk.ports.signals
    assert isinstance(signals, KeptSignals)
    assert "key_expires_soon" in [action for action, _ in signals.lines]


def test_a_key_that_has_ended_is_forgotten_after_a_while_and_one_that_has_not_never(desk: Desk) -> None:
    key_id, _ = desk.make(days=30)
    key = keys.get_key(desk.ports, key_id)
    assert key.expires_at_s * SECOND_MS == key.ends_at_ms + SHOWN_AFTER_END_S * SECOND_MS
    keys.revoke_key(desk.ports, key_id, LOCAL)
    assert keys.get_key(desk.ports, key_id).expires_at_s < key.expires_at_s


# --- who makes them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"team": "platform", "role": "viewer"}, Forbidden),
        ({"role": "worker", "pools": ("payments",)}, Forbidden),
        ({"role": "platform"}, InvalidField),
        ({"role": "worker"}, InvalidField),
        ({"pools": ("payments",)}, InvalidField),
        ({"ends_at_ms": 0}, InvalidField),
    ],
)
def test_an_owner_makes_no_key_that_goes_further_than_he_does(desk: Desk, fields: Any, error: type[Exception]) -> None:
    wanted = Wanted("payments", "viewer", desk.clock.at_ms + DAY_MS)
    with pytest.raises(error):
        keys.create_key(desk.ports, replace(wanted, **fields), OWNER)
    assert keys.create_key(desk.ports, wanted, OWNER)[0].created_by == OWNER.name


def test_a_pool_that_is_not_there_gets_no_worker(desk: Desk) -> None:
    with pytest.raises(InvalidField, match="there is no pool"):
        desk.make(role="worker", pools=("nowhere",))


def test_a_team_has_so_many_keys_and_no_more(desk: Desk) -> None:
    for _ in range(KEYS_PER_TEAM_MAX):
        desk.make()
    with pytest.raises(TooMany):
        desk.make()
    assert desk.make(team="shop")
