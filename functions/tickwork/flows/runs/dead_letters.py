"""Dead letters of a team: listing them with cause and history, and replaying them at a pace (W6).

Protects no-lost-timer: each replay is one transaction, then the creator's rule. The pace is in the due times of the
retry items, so nobody has to stay alive to keep it. A crash between the write and the rule leaves a retry item that
the ledger audit finds; repeating the call does the rule again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.dispatch import retaking
from tickwork.core.errors import WorldError
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS, ceil_to_second
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.jobs.overlap import Holding
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, bad_end_partitions
from tickwork.core.ledger.records import HeldBy, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import UNSAFE
from tickwork.core.ledger.writes import Committed
from tickwork.core.runs.endings import Verdict, retry_key
from tickwork.core.runs.replays import NOT_DEAD, decide_replay, is_repeat, is_replayed
from tickwork.flows.access import pools
from tickwork.flows.dispatch import creating
from tickwork.flows.dispatch.overlapping import holding_of
from tickwork.flows.ledger import groups, platform_defaults
from tickwork.flows.ledger.bad_ends import EndPlace, Ends, list_ends
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.merging import Bound, Shown
from tickwork.flows.ledger.reading import read_job, read_many, read_run
from tickwork.flows.ledger.versions import Versions
from tickwork.ports import Ports

REPLAY_TRIES_MAX = 3
OWN, CURRENT = "", "current"
UNKNOWN, NO_DEFINITION, NO_POOL, BUSY = "unknown", "no_definition", "no_pool", "busy"
GROUP_CANCELLED = "group_cancelled"
HELD = "held"
"""Another run of its job has not ended, and two may not overlap."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters; empty or 0: any. `reason` and `error` are looked for inside the text."""

    job_id: str = ""
    error_class: str = ""
    reason: str = ""
    error: str = ""
    since_ms: int = 0
    until_ms: int = 0

    def matches(self, run: Run) -> bool:
        last: Mapping[str, Any] = run.attempts[-1] if run.attempts else {}
        return (
            self.job_id in ("", run.key.job_id)
            and self.error_class in ("", last.get("error_class"))
            and self.reason in run.reason
            and self.error in str(last.get("error", ""))
            and self.since_ms <= run.ended_at_ms
            and (not self.until_ms or run.ended_at_ms < self.until_ms)
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Who wants a replay and why, and its pace: `per_second` from `begin_ms` on, `before` of them due already."""

    by: str
    reason: str
    per_second: int
    begin_ms: int
    before: int = 0
    repeat_unsafe: bool = False
    """The person knows that an `unsafe` run may have had its effect already."""
    definition: str | int = OWN
    """What the runs are to do: what they were fired by, what their job says now, or what it said at a version."""

    def due_ms(self, index: int) -> int:
        return ceil_to_second(self.begin_ms + (self.before + index) // self.per_second * SECOND_MS)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one: due at `due_ms`, or why not (`refusal`; `held_by`: which run holds its job)."""

    ref: str
    run_id: str
    due_ms: int = 0
    refusal: str = ""
    held_by: HeldBy | None = None


def list_dead(ports: Ports, team: str, wanted: Wanted, *, limit: int, after: EndPlace | None) -> Shown[EndPlace, Run]:
    """A page of a team's dead runs, newest death first. It may be short, or empty, and go on: what does not match has
    been read as well."""
    until_ms = wanted.until_ms - 1 if wanted.until_ms else LATEST_INSTANT_MS
    ends = Ends(bad_end_partitions(team, lifecycle.DEAD), wanted.since_ms, until_ms, after)
    return list_ends(
        ports, ends, lambda run: run.status == lifecycle.DEAD and wanted.matches(run), limit=limit, bound=Bound()
    )


def dead_of(ports: Ports, keys: Sequence[LedgerKey]) -> list[LedgerKey]:
    """Those of some runs that are dead now: no others are replayed."""
    items = read_many(ports, TIMERS, [key.as_item() for key in keys])
    return [key for key, item in zip(keys, items, strict=True) if item and item.get("status") == lifecycle.DEAD]


def replay_runs(ports: Ports, keys: Sequence[LedgerKey], order: Order) -> list[Replayed]:
    """Replay these runs in this order, at the pace of the order. Again is a no-op for those that wait already."""
    replayed = [_replay(ports, key, order, order.due_ms(index)) for index, key in enumerate(keys)]
    retries = [retry for _, retry in replayed if retry is not None]
    creating.follow_up(ports, retries)
    return [outcome for outcome, _ in replayed]


def _replay(ports: Ports, key: LedgerKey, order: Order, due_ms: int) -> tuple[Replayed, LedgerKey | None]:
    """What became of a run, and its retry item if it waits for one. A busy store fails this run, not its neighbours,
    and so does another run of its job that cannot be read."""
    try:
        return _try_replay(ports, key, order, due_ms)
    except (WorldError, Unreadable) as error:
        ports.signals.log("replay_busy", ref=key.ref, error=repr(error))
        return Replayed(key.ref, key.run_id, refusal=BUSY), None


def _try_replay(ports: Ports, key: LedgerKey, order: Order, due_ms: int) -> tuple[Replayed, LedgerKey | None]:
    for _ in range(REPLAY_TRIES_MAX):
        run = read_run(ports, key)
        if run is None:
            return Replayed(key.ref, key.run_id, refusal=UNKNOWN), None
        is_same = _asks_for_the_same(run, order)
        if is_same and is_replayed(run):
            retry = retry_key(run.key, run.retry_at_ms, run.attempt + 1)
            return Replayed(key.ref, key.run_id, run.retry_at_ms), retry
        if is_same and is_repeat(run, order.by, order.reason):
            return Replayed(key.ref, key.run_id, run.retry_at_ms), None
        verdict = _decide(ports, run, order, due_ms)
        if isinstance(verdict, Holding):
            return Replayed(key.ref, key.run_id, refusal=HELD, held_by=verdict.by), None
        if isinstance(verdict, str):
            return Replayed(key.ref, key.run_id, refusal=verdict), None
        creating.prepare_slices(ports, [key])  # of a run that there is: a forged ref must not make cursors
        if isinstance(commit(ports, *verdict.writes), Committed):
            ports.signals.count("runs.replayed_total", team=key.team)
            ports.signals.log("run_replayed", ref=key.ref, by=order.by, reason=order.reason, due_ms=due_ms)
            return Replayed(key.ref, key.run_id, due_ms), verdict.retry.key if verdict.retry else None
    return Replayed(key.ref, key.run_id, refusal=BUSY), None


def _asks_for_the_same(run: Run, order: Order) -> bool:
    """Whether the last replay has given the run the definition that is asked for. What was current then may be an
    earlier one by now, and the same request all the same."""
    given = run.replays[-1].get("definition") if run.replays else None
    if order.definition == CURRENT:
        return run.work is not None or given is not None  # a one-shot has none but its own
    return order.definition in (OWN, given)


def _decide(ports: Ports, run: Run, order: Order, due_ms: int) -> Verdict | Holding | str:
    if run.status != lifecycle.DEAD:
        return NOT_DEAD
    if groups.cancelled(groups.read_groups(ports, [groups.label_of(run)]), run) is not None:
        return GROUP_CANCELLED
    job = read_job(ports, run.key.job_id) if run.is_of_job else None
    definition = 0 if order.definition == OWN else _asked_for(order.definition, run, job)
    try:
        work = run.work or Versions(ports).work_of(job, replace(run, definition=definition or run.definition))
    except Unreadable as error:  # a newer version's: this run waits for that one, and its neighbours do not
        ports.signals.log("item_set_aside", why=f"{run.key.ref}: {error}")
        return NO_DEFINITION
    if work is None or definition is None or (definition and run.work):
        return NO_DEFINITION
    if work.is_unsafe and not order.repeat_unsafe:
        return UNSAFE
    if not pools.may_aim(ports, run.key.team, work.pool, due_ms):
        return NO_POOL
    standing = None
    if job is not None and job.status != DELETED and not run.beside:
        (standing,) = platform_defaults.applied(ports, [job])
    holding = holding_of(ports, standing) if standing is not None else None
    if holding is not None and standing is not None and standing.buffer is not None:
        holding = replace(holding, by=holding.by or standing.buffer.by)  # nothing overtakes what waits
    if holding is not None and holding.by is not None:
        return holding
    return decide_replay(
        run,
        order.by,
        order.reason,
        due_ms,
        ports.clock.now_ms(),
        guarded=work.is_guarded or run.hard,
        definition=definition,
        job=(retaking.take_holder(standing, run),) if standing is not None else (),
    )


def _asked_for(wanted: str | int, run: Run, job: Job | None) -> int | None:
    """The version of the job whose definition is asked for; 0: the run's own, which is all that a one-shot has. None:
    there is none to have."""
    if wanted != CURRENT:
        return int(wanted)
    if run.work is not None:
        return 0
    return None if job is None or job.status == DELETED else job.version
