"""Frozen spellings: a second spelling would be a second identity. Change none of these; add new ones."""

from __future__ import annotations

import json

import pytest

from tickwork.core import ids
from tickwork.core.errors import InvalidField
from tickwork.core.ledger.keys import LedgerKey, client_key_of, parse_ref, payload_key, second_range, slice_key
from tickwork.core.ledger.messages import ReadyMessage, Tick
from tickwork.core.ledger.work import Work

NOON_MS = 1_793_516_400_000  # 2026-11-01T07:00:00Z


@pytest.mark.parametrize(
    ("job_id", "scheduled_at_ms", "run_id"),
    [
        ("payments:nightly", NOON_MS, "d6fbc700ee16f0177712f7de3567f6d2"),
        ("payments:nightly", NOON_MS + 1_000, "4c86225b410e00dbedbc8ad210decdd3"),
        ("web:t~main~0003~1793516400~00112233445566778899", NOON_MS, "55261fdc919f945b55401a2a6c1845ec"),
    ],
)
def test_a_run_id_never_changes(job_id: str, scheduled_at_ms: int, run_id: str) -> None:
    assert ids.run_id_of(job_id, scheduled_at_ms) == run_id


def test_a_shard_never_changes() -> None:
    assert [ids.shard_of("payments:nightly", n) for n in (1, 4, 64, 1024)] == [0, 2, 26, 154]
    assert ids.stable_hash("tickwork") == 1784196213366502353


def test_a_ledger_key_never_changes() -> None:
    key = LedgerKey("main", 7, NOON_MS + 5_000, "payments", "nightly", NOON_MS)
    assert key.pk == "main#0007#29891940"
    assert key.sk == "1793516405#payments#nightly#1793516400"
    retry = LedgerKey("main", 7, NOON_MS + 65_000, "payments", "nightly", NOON_MS, "retry.2")
    assert (retry.pk, retry.sk) == ("main#0007#29891941", "1793516465#payments#nightly#1793516400#retry.2")
    assert retry.ref == "main#0007#29891941|1793516465#payments#nightly#1793516400#retry.2"


def test_the_other_keys_never_change() -> None:
    assert slice_key("main", 3) == "main#0003"
    assert client_key_of("payments", "invoice-17") == "payments#invoice-17"
    assert payload_key("payments:nightly", 4, '"x"') == "payments:nightly#4.ba2df4903a2c"
    assert second_range(1_793_516_400, 1_793_516_459) == ("1793516400#", "1793516459#~")
    assert ids.one_shot_name("main", 3, 1_793_516_400, "0011aa") == "t~main~0003~1793516400~0011aa"


def test_a_ready_message_keeps_its_fields() -> None:
    key = LedgerKey("main", 7, NOON_MS + 5_000, "payments", "nightly", NOON_MS)
    work = Work("default", "settle", payload='{"n":1}', lease_s=90)
    message = json.loads(
        ReadyMessage(key, work, 1, NOON_MS + 5_100, "main#0001#42", previous_at_ms=NOON_MS - 60_000).to_json()
    )
    expected = {
        "v": 1,
        "ref": "main#0007#29891940|1793516405#payments#nightly#1793516400",
        "run_id": "d6fbc700ee16f0177712f7de3567f6d2",
        "job_id": "payments:nightly",
        "scheduled_at": "2026-11-01T07:00:00Z",
        "fire_at": "2026-11-01T07:00:05Z",
        "attempt": 1,
        "handler": "settle",
        "lease_s": 90,
        "dispatched_at_ms": NOON_MS + 5_100,
        "dispatched_by": "main#0001#42",
        "payload": {"n": 1},
        "previous_at": "2026-11-01T06:59:00Z",
    }
    assert {name: message.get(name) for name in expected} == expected


def test_a_tick_keeps_its_form() -> None:
    assert Tick("main", 3, 1_793_516_400).to_json() == '{"v":1,"cell":"main","slice":3,"second":1793516400}'
    assert Tick.from_json('{"v":2,"cell":"main","slice":3,"second":5,"new":true}') == Tick("main", 3, 5)


@pytest.mark.parametrize("name", ["a", "a-b.c_9", "x" * 63])
def test_a_slug_is_taken_as_it_is(name: str) -> None:
    assert ids.check_slug(name, "name") == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a b", "a#b", "a:b", "a|b", "é", "x" * 64, "a\n"])
def test_what_could_break_a_key_is_no_name(name: str) -> None:
    with pytest.raises(InvalidField):
        ids.check_slug(name, "name")


@pytest.mark.parametrize(
    "ref",
    ["", "|", "main#0007#29891940", "main#0007#29891941|1793516405#payments#nightly#1793516400", "main#7#1|5#a#b#5"],
)
def test_a_forged_ref_is_no_key(ref: str) -> None:
    with pytest.raises(ValueError):
        parse_ref(ref)
