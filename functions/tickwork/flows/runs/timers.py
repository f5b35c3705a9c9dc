"""One-shot timers: create (one conditional put), cancel (one conditional update), read (the id says where).

Protects no-lost-timer (answered only after the creator's rule) and cancelled-stays (the cancellation and the start
are conditional updates of the same item).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tickwork.core.errors import AlreadyExists, Conflict, InvariantViolated, NotFound, Throttled, TooLate, WorldError
from tickwork.core.ids import one_shot_name
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger import deadlines, epochs, lifecycle, pending
from tickwork.core.ledger.epochs import Label
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run, Stands
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Committed, Put, Update, Write
from tickwork.core.runs.cancellations import decide_cancel
from tickwork.flows.access import quotas, registry
from tickwork.flows.dispatch import creating
from tickwork.flows.ledger import groups
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import PAYLOAD_KEPT_S, keep_payload
from tickwork.flows.ledger.placing import spread_of
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.ledger.teams import note_teams
from tickwork.flows.runs.client_keys import Asked, Known, claim, first_answers, place_of
from tickwork.ports import Ports

CANCEL_TRIES_MAX = 4
"""Each refusal means that its start was put off meanwhile, or once more: that takes some seconds each time."""


@dataclass(frozen=True, slots=True)
class NewTimer:
    """A one-shot to create. `work.payload` is the whole payload; where it is kept is decided here."""

    team: str
    fire_at_ms: int
    work: Work
    client_key: str | None = None
    fingerprint: str = ""
    as_written: str = ""
    """Its fingerprint as older versions took it (`client_keys.Asked`)."""
    stands_for: Stands | None = None
    """What it is counted for in what its team holds."""
    group: str = ""
    epoch: int = 0
    """That of its group, read before it is written."""

    @property
    def payload_bytes(self) -> int:
        return len((self.work.payload or "").encode())

    @property
    def asked(self) -> Asked:
        return Asked(self.team, self.client_key or "", self.fingerprint, self.as_written)


@dataclass(frozen=True, slots=True)
class Created:
    """A timer's run and whether this call made it (False: an earlier call with the same client key did)."""

    run: Run
    is_new: bool
    is_forgotten: bool = False
    """Its record has expired: `run` says where it was and what was asked for, and nothing of how it ended."""


type Fate = Created | AlreadyExists | WorldError


class NotTried(Throttled):
    """The tables were busy with what came before it."""


def create_timers(ports: Ports, timers: Sequence[NewTimer]) -> list[Created]:
    """Create one-shots, and raise the first error when each has been tried."""
    fates = create_each(ports, timers)
    created = [fate for fate in fates if isinstance(fate, Created)]
    if len(created) < len(fates):
        raise next(fate for fate in fates if not isinstance(fate, Created))
    return created


def create_each(ports: Ports, timers: Sequence[NewTimer]) -> list[Fate]:
    """Create one-shots, each with a fate of its own: made, made before by the same request, refused for its client key,
    or not known to be made because the tables are busy. After the first of those the others are not tried: each would
    take the patience of seconds. What was made is seen to by the creator's rule; raises the WorldError of that."""
    for team in sorted({timer.team for timer in timers}):
        registry.keep_teams_mark(ports, team, max(timer.fire_at_ms for timer in timers if timer.team == team))
    keys = [_place(ports, timer) for timer in timers]
    known = groups.read_groups(ports, {Label(timer.team, timer.group) for timer in timers})
    timers = [replace(timer, epoch=groups.epoch_of(known, Label(timer.team, timer.group))) for timer in timers]
    creating.prepare_slices(ports, keys)
    fates: list[Fate] = []
    try:
        for timer, key in zip(timers, keys, strict=True):
            is_busy = bool(fates) and isinstance(fates[-1], WorldError)
            fates.append(_not_tried(ports, timer) if is_busy else _fate(ports, timer, key))
    finally:
        creating.follow_up(ports, [one.run.key for one in fates if isinstance(one, Created) and not one.is_forgotten])
    return _as_they_end(ports, fates)


def _as_they_end[F](ports: Ports, fates: Sequence[F]) -> list[F | Created]:
    """The fates, read behind the writes: of what was cancelled with its group, also while it was being created, the
    answer says so."""
    made = [at for at, fate in enumerate(fates) if isinstance(fate, Created) and not fate.is_forgotten]
    told: list[F | Created] = list(fates)
    runs = [fate.run for at in made if isinstance(fate := fates[at], Created)]
    for at, run in zip(made, groups.as_they_end(ports, runs), strict=True):
        if isinstance(fate := fates[at], Created):
            told[at] = replace(fate, run=run)
    return told


def _fate(ports: Ports, timer: NewTimer, key: LedgerKey) -> Fate:
    fate: Fate
    try:
        fate = _create(ports, timer, key)
    except (AlreadyExists, WorldError) as error:
        fate = error
    if timer.stands_for is not None and not _may_be_new(fate):
        quotas.take_back(ports, timer.team, [timer.stands_for])
    return fate


def _not_tried(ports: Ports, timer: NewTimer) -> NotTried:
    quotas.take_back(ports, timer.team, [timer.stands_for])
    return NotTried("the tables are busy")


def _may_be_new(fate: Fate) -> bool:
    return fate.is_new if isinstance(fate, Created) else not isinstance(fate, AlreadyExists)


def created_before(ports: Ports, asked: Sequence[Asked], work: Callable[[int], Work]) -> list[Fate | None]:
    """For each request (with a client key): the timer that it has made before, however long ago and whatever the time
    says of it by now; the refusal of a key that is another's; None where it is new. `work(index)` is what it asks for,
    to stand in for a record that has expired. The first request may have died before it saw to its timer."""
    known = [_known(one, index, work) for index, one in enumerate(first_answers(ports, asked))]
    standing = [one.run.key for one in known if isinstance(one, Created) and not one.is_forgotten]
    creating.follow_up(ports, standing)
    return _as_they_end(ports, known)


def _known(one: Known | AlreadyExists | None, index: int, work: Callable[[int], Work]) -> Fate | None:
    if not isinstance(one, Known):
        return one
    if one.run is None:
        return Created(Run(one.key, work=work(index)), False, is_forgotten=True)
    return Created(one.run, False)


def _place(ports: Ports, timer: NewTimer) -> LedgerKey:
    unique = ports.ids.unique()
    if timer.client_key is not None:
        # The same request lands on the same item even when the reply to the first was lost.
        unique = hashlib.sha256(f"{timer.team}|{timer.client_key}|{timer.fingerprint}".encode()).hexdigest()[:20]
    spread = spread_of(ports, timer.team, timer.work.lane)
    shard = spread.shard_of(f"{timer.team}:{unique}")
    second = second_of(timer.fire_at_ms)
    name = one_shot_name(spread.name, shard, second, unique)
    return LedgerKey(spread.name, shard, second * SECOND_MS, timer.team, name, second * SECOND_MS)


def _create(ports: Ports, timer: NewTimer, key: LedgerKey) -> Created:
    now_ms = ports.clock.now_ms()
    expires_at_s = key.fire_second + ports.layout.retention_s + PAYLOAD_KEPT_S
    work = keep_payload(ports, timer.work, key.job_id, 1, expires_at_s)
    by = ports.acting.by
    run = Run(
        key,
        work=work,
        created_at_ms=now_ms,
        guarded=work.is_guarded,
        start_by_ms=deadlines.start_by_ms(key, work),
        created_by=by,
        stands_for=timer.stands_for,
        group=timer.group,
        epoch=timer.epoch,
    )
    lives = {"expires_at_s": epochs.expires_at_s(key, ports.layout.retention_s)} if timer.group else {}
    writes: list[Write] = [Put(TIMERS, run.to_item() | lives, Absent())]
    if timer.client_key is not None:
        writes.append(claim(timer.asked, key, ports.layout.retention_s))
    result = commit(ports, *writes)
    if isinstance(result, Committed):
        return Created(run, True)
    if timer.client_key is None:
        standing = result.only
        if standing is None or Run.from_item(standing).key != key:
            raise InvariantViolated(f"the id {key.job_id} was taken")
        return Created(Run.from_item(standing), True)  # our own put, whose reply was lost
    return _created_before(ports, timer, key)


def _created_before(ports: Ports, timer: NewTimer, key: LedgerKey) -> Created:
    (said,) = first_answers(ports, [timer.asked])
    known = _known(said, 0, lambda _: timer.work)
    if known is None:  # the key has expired, the timer of the same content is still in the ledger
        return Created(get_timer(ports, key.job_id), False)
    if isinstance(known, Created):
        return known
    raise known


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
    place = place_of(timer_id)
    if place is None:
        raise NotFound(
            f"{timer_id!r} is not the id of a timer",
            field="timer_id",
            remedy="use the timer_id that creation returned",
        )
    return place


def cancel_timer(ports: Ports, timer_id: str, reason: str = "cancelled") -> Run:
    """Cancel a timer that has not started; again is a no-op. NotFound, or TooLate when it runs or has ended."""
    key = timer_place(timer_id)
    now_ms, retention_s = ports.clock.now_ms(), ports.layout.retention_s
    ending: Sequence[Write] = (pending.end_pending(key, lifecycle.CANCEL, reason, now_ms, retention_s),)
    for _ in range(CANCEL_TRIES_MAX):
        result = commit(ports, *_signed(ports, ending))
        if isinstance(result, Committed):
            if key.fire_at_ms <= now_ms:
                note_teams(ports, [key.team])
            run = get_timer(ports, timer_id) if result.item is None else Run.from_item(result.item)
            quotas.give_back(ports, run)
            return run
        standing = result.failed.get(0)
        run = get_timer(ports, timer_id) if standing is None else Run.from_item(standing)
        if run.status == lifecycle.CANCELLED:
            quotas.give_back(ports, run)  # an earlier try may have died before it did
            return run
        # One whose first start was put off (for a pause) waits for its retry, and nobody has started it.
        is_put_off = run.status == lifecycle.WAITING and not run.attempt
        verdict = decide_cancel(run, reason, now_ms, retention_s) if is_put_off else None
        if verdict is None:
            raise _started(run, timer_id)
        ending = verdict.writes
    raise Conflict(f"timer {timer_id} was moved {CANCEL_TRIES_MAX} times meanwhile")


def _signed(ports: Ports, ending: Sequence[Write]) -> Sequence[Write]:
    """The writes of a cancellation, whose first is the run's own, with who has asked for it."""
    first, *others = ending
    if not ports.acting.by or not isinstance(first, Update):
        return ending
    return replace(first, set={**first.set, "cancelled_by": ports.acting.by}), *others


def _started(run: Run, timer_id: str) -> TooLate:
    return TooLate(
        f"timer {timer_id} is {run.status} and cannot be cancelled any more",
        field="timer_id",
        remedy="a timer can be cancelled until a worker has started it",
    )
