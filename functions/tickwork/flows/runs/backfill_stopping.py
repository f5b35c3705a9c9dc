"""Pausing, resuming and cancelling a backfill.

Each is one compare-and-set on the backfill, so that whoever was about to launch something is refused. After that a
cancellation goes through the runs that were launched: those that nobody has started are cancelled, the others only when
that was asked for. A crash on the way leaves them named in the backfill: the repeat, or the reconciler, goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tickwork.core.errors import Conflict, NotFound, TooLate, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import CANCELLED, PAUSED, PLACES, RUNNING, Backfill
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Committed, Delete, Is, Item
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.flows.runs import backfilling, cancelling
from tickwork.ports import Ports

TRIES_MAX = 8
"""Each refusal means that a run of it has ended, or was launched, meanwhile."""
_PAGE = 100


def get_backfill(ports: Ports, backfill_id: str) -> Backfill:
    parsed = backfills.parse_backfill_id(backfill_id)
    found = None if parsed is None else backfilling.read_backfill(ports, backfills.place(*parsed))
    if found is None:
        raise NotFound(f"there is no backfill {backfill_id!r}", field="backfill_id", remedy="list those of its job")
    return found


def pause(ports: Ports, backfill_id: str, by: str, reason: str) -> Backfill:
    """Launch nothing more until it is resumed; what was launched goes on. Again is a no-op. TooLate when it is over."""
    return _set(ports, backfill_id, PAUSED, lambda one: replace(one, stopped_by=by, stopped_because=reason))


def resume(ports: Ports, backfill_id: str, by: str) -> Backfill:
    """Go on. Again is a no-op. TooLate when it is over."""
    resumed = _set(ports, backfill_id, RUNNING, lambda one: replace(one, stopped_by=by, stopped_because=""))
    backfilling.advance(ports, resumed.key())
    return get_backfill(ports, backfill_id)


def cancel(ports: Ports, backfill_id: str, by: str, reason: str, *, stops_runs: bool) -> Backfill:
    """Launch nothing more, and cancel what was launched and not started; with `stops_runs` what has started, too. Again
    goes on with it. TooLate when it has finished."""
    now_ms = ports.clock.now_ms()
    cancelled = _set(
        ports,
        backfill_id,
        CANCELLED,
        lambda one: replace(
            one, stopped_by=by, stopped_because=reason, stops_runs=stops_runs or one.stops_runs, ended_at_ms=now_ms
        ),
    )
    wind_down(ports, cancelled.key())
    return get_backfill(ports, backfill_id)


def _set(ports: Ports, backfill_id: str, status: str, change: Callable[[Backfill], Backfill]) -> Backfill:
    for _ in range(TRIES_MAX):
        standing = get_backfill(ports, backfill_id)
        changed = replace(change(standing), status=status)
        if standing.status == status and standing.stops_runs == changed.stops_runs:
            return standing
        if not standing.is_going_on and not (status == CANCELLED == standing.status and standing.live):
            raise TooLate(
                f"backfill {backfill_id} is {standing.status}", field="backfill_id", remedy="it launches nothing more"
            )
        if isinstance(commit(ports, changed.moved_from(standing)), Committed):
            ports.signals.log("backfill_set", backfill=backfill_id, status=status, by=changed.stopped_by)
            return changed
    raise Conflict(f"backfill {backfill_id} was moved {TRIES_MAX} times meanwhile")


def wind_down(ports: Ports, place: Item) -> None:
    """Cancel what a cancelled backfill has launched, as far as that was asked for, and count what has ended."""
    for _ in range(TRIES_MAX):
        backfill = backfilling.read_backfill(ports, place)
        if backfill is None or backfill.status != CANCELLED or not backfill.live:
            return
        for key in _to_stop(ports, backfill):
            with suppress(TooLate, NotFound):  # it has ended meanwhile
                cancelling.cancel_run(ports, key, f"its backfill was cancelled: {backfill.stopped_because}"[:200])
        ended = backfilling.ended_of(ports, backfill)
        left = {ref: backfilling.LEFT for ref in backfill.live if ref not in ended}
        moved = backfills.settled(backfill, ended | left, ports.clock.now_ms())
        if isinstance(commit(ports, moved.moved_from(backfill)), Committed):
            return


def _to_stop(ports: Ports, backfill: Backfill) -> list[LedgerKey]:
    items = read_many(ports, TIMERS, [parse_ref(ref).as_item() for ref in backfill.live])
    runs = [Run.from_item(item) for item in items if item is not None]
    return [run.key for run in runs if not run.ended and (backfill.stops_runs or not run.attempt)]


def see_to_all(ports: Ports) -> int:
    """What the reconciler does: each backfill that is not over is moved on, for whoever should have done it may have
    died; one that is over is forgotten after the retention of its last runs. How many could not be seen to."""
    failed = 0
    for item in (
        one for place in PLACES for page in pages(ports, TEAMS, place, "!", "~", limit=_PAGE) for one in page.items
    ):
        try:
            _see_to(ports, Backfill.from_item(item))
        except (WorldError, Unreadable) as error:
            failed += 1
            ports.signals.log("backfill_left", backfill=str(item.get("team")), error=repr(error))
    return failed


def _see_to(ports: Ports, backfill: Backfill) -> None:
    if backfill.is_going_on:
        backfilling.advance(ports, backfill.key(), again=False)
    elif not backfill.is_over:
        wind_down(ports, backfill.key())
    elif backfill.ended_at_ms + ports.layout.retention_s * SECOND_MS < ports.clock.now_ms():
        commit(ports, Delete(TEAMS, backfill.key(), Is("rev", backfill.rev)))
