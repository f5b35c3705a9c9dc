"""Random operations on two stores: every answer and every snapshot must be the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import (
    Absent,
    Anyway,
    AtLeast,
    Below,
    Check,
    Delete,
    Is,
    Missing,
    Put,
    Update,
    all_of,
    any_of,
)
from tickwork.ports import Store
from tickwork.testing.memory import MemoryStore

STEPS = 120
PARTITIONS, SORTS = ("p#0", "p#1"), ("0001#a", "0002#b", "0002#b#retry.2", "0003#~")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("other", ["moto", "ministack"])
def test_two_stores_answer_alike(request: pytest.FixtureRequest, other: str, seed: int) -> None:
    store: Store = request.getfixturevalue(f"{other}_store")
    memory = MemoryStore()
    rng = Random(seed)
    for step in range(STEPS):
        verb, arguments = _draw(rng)
        expected, found = _do(memory, verb, arguments), _do(store, verb, arguments)
        assert found == expected, f"step {step}: {verb} {arguments}"
    for partition in PARTITIONS:
        whole = [one.query(TIMERS, partition, "0", "~", limit=100).items for one in (memory, store)]
        assert whole[0] == whole[1]


def _do(store: Store, verb: str, arguments: dict[str, Any]) -> object:
    answer = getattr(store, verb)(**arguments)
    if verb == "query":
        # A page that ends exactly at the end may or may not say that there is more.
        return answer.items
    return answer


def _draw(rng: Random) -> tuple[str, dict[str, Any]]:
    drawn = rng.random()
    if drawn < 0.5:
        return "commit", {"writes": [_write(rng, _key(rng))]}
    if drawn < 0.7:
        keys = {tuple(_key(rng).values()) for _ in range(rng.randint(2, 4))}
        if len(keys) > 1:
            return "commit", {"writes": [_write(rng, {"pk": pk, "sk": sk}, checks=True) for pk, sk in sorted(keys)]}
    if drawn < 0.8:
        return "get", {"table": TIMERS, "key": _key(rng)}
    if drawn < 0.9:
        first, last = sorted((rng.choice(SORTS), rng.choice(SORTS)))
        return "query", {
            "table": TIMERS,
            "partition": rng.choice(PARTITIONS),
            "first": first,
            "last": last,
            "limit": rng.randint(1, 4),
            "after": None,
            "descending": rng.random() < 0.3,
        }
    return "query_index", {
        "table": TIMERS,
        "index": BY_JOB,
        "partition": "pay:job",
        "limit": 20,
        "after": None,
        "descending": rng.random() < 0.5,
    }


def _key(rng: Random) -> dict[str, str]:
    return {"pk": rng.choice(PARTITIONS), "sk": rng.choice(SORTS)}


def _condition(rng: Random) -> Any:
    simple: list[Any] = [
        Absent(),
        Is("status", rng.choice(("pending", "running"))),
        Is("token", rng.randint(0, 2)),
        Missing("token"),
        Below("token", rng.randint(0, 3)),
        AtLeast("token", rng.randint(0, 3)),
    ]
    drawn = rng.random()
    if drawn < 0.2:
        return Anyway("a test")
    if drawn < 0.7:
        return rng.choice(simple)
    return rng.choice((all_of, any_of))(*rng.sample(simple, 2))


def _write(rng: Random, key: dict[str, str], *, checks: bool = False) -> Any:
    drawn = rng.random()
    if drawn < 0.4:
        item: dict[str, Any] = {**key, "status": "pending", "n": rng.randint(0, 9)}
        if rng.random() < 0.5:
            item |= {"job_id": "pay:job", "scheduled_at_ms": 1_000 * (1 + SORTS.index(key["sk"])) + ord(key["pk"][-1])}
        return Put(TIMERS, item, _condition(rng))
    if drawn < 0.8:
        return Update(
            TIMERS,
            key,
            _condition(rng),
            set={"status": rng.choice(("pending", "running")), "token": rng.randint(0, 3)},
            remove=rng.choice(((), ("n",))),
            append=rng.choice(({}, {"attempts": [{"n": rng.randint(0, 9)}]})),
            add=rng.choice(({}, {"sum": rng.randint(-9, 9)})),
        )
    if drawn < 0.9 or not checks:
        return Delete(TIMERS, key, _condition(rng))
    condition = _condition(rng)
    return Check(TIMERS, key, Missing("never") if isinstance(condition, Anyway) else condition)
