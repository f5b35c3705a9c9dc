"""One-shot timers: create (one conditional put), cancel (one conditional update), read (the id says where).

Protects no-lost-timer (answered only after the creator's rule) and cancelled-stays (the cancellation and the start
are conditional updates of the same item).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.errors import AlreadyExists, InvariantViolated, NotFound, TooLate
from tickwork.core.ids import one_shot_name, parse_one_shot_name, shard_of, split_job_id
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger import lifecycle, pending
from tickwork.core.ledger.keys import LedgerKey, client_key_of
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import CLIENT_KEYS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Committed, Item, Put, Write
from tickwork.flows.dispatch import creating
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import PAYLOAD_KEPT_S, keep_payload
from tickwork.flows.ledger.reading import read_many, read_run
from tickwork.flows.ledger.teams import note_teams
from tickwork.ports import Ports

CLIENT_KEY_KEPT_S = 7 * 86_400
"""A client key is remembered until this long after the timer was due."""


@dataclass(frozen=True, slots=True)
class NewTimer:
    """A one-shot to create. `work.payload` is the whole payload; where it is kept is decided here."""

    team: str
    fire_at_ms: int
    work: Work
    client_key: str | None = None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Created:
    """A timer's run and whether this call made it (False: an earlier call with the same client key did)."""

    run: Run
    is_new: bool


def create_timers(ports: Ports, timers: Sequence[NewTimer]) -> list[Created]:
    """Create one-shots. AlreadyExists: a client key of other content, named by its index where there are several; then
    none is created, unless the key was taken at this very moment. An error in a later one leaves the earlier ones in
    place, seen to by the creator's rule, and a caller who repeats the call with client keys gets the same timers."""
    if len(timers) > 1:
        _check_client_keys(ports, timers)
    keys = [_place(ports, timer) for timer in timers]
    creating.prepare_slices(ports, keys)
    created: list[Created] = []
    try:
        for timer, key in zip(timers, keys, strict=True):
            created.append(_create(ports, timer, key))
    except AlreadyExists as error:
        error.field = _field(timers, len(created))
        raise
    finally:
        creating.follow_up(ports, [one.run.key for one in created])
    return created


def _check_client_keys(ports: Ports, timers: Sequence[NewTimer]) -> None:
    """Before anything is written: no client key is taken by another timer."""
    keyed = {client_key_of(one.team, one.client_key): i for i, one in enumerate(timers) if one.client_key is not None}
    claims = read_many(ports, CLIENT_KEYS, [{"client_key": key} for key in keyed])
    for index, claimed in zip(keyed.values(), claims, strict=True):
        if claimed is not None and claimed["fingerprint"] != timers[index].fingerprint:
            raise _taken(timers[index], claimed, _field(timers, index))


def _field(timers: Sequence[NewTimer], index: int) -> str:
    return f"{index}.client_key" if len(timers) > 1 else "client_key"


def _taken(timer: NewTimer, claimed: Item, field: str) -> AlreadyExists:
    return AlreadyExists(
        f"client_key {timer.client_key!r} was used for another timer ({claimed['timer_id']})",
        field=field,
        remedy="use a new client_key for a new timer, or repeat the first request unchanged",
    )


def _place(ports: Ports, timer: NewTimer) -> LedgerKey:
    unique = ports.ids.unique()
    if timer.client_key is not None:
        # The same request lands on the same item even when the reply to the first was lost.
        unique = hashlib.sha256(f"{timer.team}|{timer.client_key}|{timer.fingerprint}".encode()).hexdigest()[:20]
    shard = shard_of(f"{timer.team}:{unique}", ports.layout.shards)
    second = second_of(timer.fire_at_ms)
    name = one_shot_name(ports.layout.cell, shard, second, unique)
    return LedgerKey(ports.layout.cell, shard, second * SECOND_MS, timer.team, name, second * SECOND_MS)


def _create(ports: Ports, timer: NewTimer, key: LedgerKey) -> Created:
    now_ms = ports.clock.now_ms()
    expires_at_s = key.fire_second + ports.layout.retention_s + PAYLOAD_KEPT_S
    work = keep_payload(ports, timer.work, key.job_id, 1, expires_at_s)
    run = Run(key, work=work, created_at_ms=now_ms, guarded=work.is_guarded)
    writes: list[Write] = [Put(TIMERS, run.to_item(), Absent())]
    if timer.client_key is not None:
        writes.append(_claim_client_key(timer, key))
    result = commit(ports, *writes)
    if isinstance(result, Committed):
        return Created(run, True)
    if timer.client_key is None:
        standing = result.only
        if standing is None or Run.from_item(standing).key != key:
            raise InvariantViolated(f"the id {key.job_id} was taken")
        return Created(Run.from_item(standing), True)  # our own put, whose reply was lost
    return _created_before(ports, timer, key)


def _claim_client_key(timer: NewTimer, key: LedgerKey) -> Put:
    item = {
        "client_key": client_key_of(timer.team, timer.client_key or ""),
        "timer_id": key.job_id,
        "fingerprint": timer.fingerprint,
        "expires_at_s": key.fire_second + CLIENT_KEY_KEPT_S,
    }
    return Put(CLIENT_KEYS, item, Absent())


def _created_before(ports: Ports, timer: NewTimer, key: LedgerKey) -> Created:
    claimed = ports.store.get(CLIENT_KEYS, {"client_key": client_key_of(timer.team, timer.client_key or "")})
    if claimed is None:  # the key has expired, the timer of the same content is still in the ledger
        return Created(get_timer(ports, key.job_id), False)
    if claimed["fingerprint"] != timer.fingerprint:
        raise _taken(timer, claimed, "client_key")
    return Created(get_timer(ports, claimed["timer_id"]), False)


def get_timer(ports: Ports, timer_id: str) -> Run:
    """The run of a one-shot, by its id alone. NotFound when there is none."""
    run = read_run(ports, timer_place(timer_id))
    if run is None:
        raise NotFound(
            f"there is no timer {timer_id!r}",
            field="timer_id",
            remedy="check the id; ended timers are kept for the retention time only",
        )
    return run


def timer_place(timer_id: str) -> LedgerKey:
    """Where the ledger item of a one-shot is. NotFound when the id is not a one-shot's."""
    team, name = split_job_id(timer_id, "timer_id")
    parsed = parse_one_shot_name(name)
    if parsed is None:
        raise NotFound(
            f"{timer_id!r} is not the id of a timer",
            field="timer_id",
            remedy="use the timer_id that creation returned",
        )
    cell, shard, second, _ = parsed
    return LedgerKey(cell, shard, second * SECOND_MS, team, name, second * SECOND_MS)


def cancel_timer(ports: Ports, timer_id: str, reason: str = "cancelled") -> Run:
    """Cancel a timer that has not started; again is a no-op. NotFound, or TooLate when it runs or has ended."""
    key = timer_place(timer_id)
    now_ms = ports.clock.now_ms()
    result = commit(ports, pending.end_pending(key, lifecycle.CANCEL, reason, now_ms, ports.layout.retention_s))
    if isinstance(result, Committed):
        if key.fire_at_ms <= now_ms:
            note_teams(ports, [key.team])
        return get_timer(ports, timer_id) if result.item is None else Run.from_item(result.item)
    if result.only is None:
        raise NotFound(f"there is no timer {timer_id!r}", field="timer_id", remedy="check the id")
    run = Run.from_item(result.only)
    if run.status == lifecycle.CANCELLED:
        return run
    raise TooLate(
        f"timer {timer_id} is {run.status} and cannot be cancelled any more",
        field="timer_id",
        remedy="a timer can be cancelled until a worker has started it",
    )
