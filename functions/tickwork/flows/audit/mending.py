"""What the audit does for items that have not come to their end: send them again, give a run its retry back, and end
what cannot run any more.

One item must not stop the audit of all that come after it: what cannot be read is told, and left in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.audit import passes
from tickwork.core.dispatch import set_aside
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import deadlines, ends, lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Due, Run
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Committed, Item
from tickwork.core.runs import endings
from tickwork.flows.audit.repairs import Repairs
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.sending import send_ready
from tickwork.flows.ledger import groups
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.paused import known_paused
from tickwork.flows.ledger.reading import read_job, read_status
from tickwork.flows.ledger.teams import note_teams
from tickwork.flows.ledger.versions import work_of
from tickwork.flows.runs import finishing
from tickwork.ports import Ports


def mend(ports: Ports, unended: Sequence[Item], repairs: Repairs, rows: Sequence[SetAside] = ()) -> None:
    """Send what is pending, but for what the rows of its slice cover; wake what has lapsed, restore the retries that
    are gone."""
    now_ms = ports.clock.now_ms()
    due = [item for item in read_items(ports, unended) if not _is_aside(rows, item)]
    fired = creating.fire_overdue(ports, due, "audit")
    lapsed = [item for item in unended if passes.has_lapsed(item, now_ms)]
    woken = send_ready(ports, _wakings(ports, lapsed, repairs))
    repairs.resent += fired.sent + woken.sent
    if fired.sent:
        ports.signals.count("scheduler.overdue_total", fired.sent)
    repairs.unsent += fired.unsent + woken.unsent
    for run in _readable(ports, [item for item in unended if passes.awaits_retry(item, now_ms)]):
        repairs.retries_restored += _restore_retry(ports, run)
    for run in _readable(ports, [item for item in unended if item.get("status") == lifecycle.BUFFERED]):
        freeing.see_to(ports, run.key)


def without_cancelled(ports: Ports, unended: Sequence[Item]) -> list[Item]:
    """What of these has not ended: of timers, which nobody writes to when their group is cancelled, those that were."""
    borne = [run for item in unended if "group" in item and (run := _unstarted(item)) is not None and not run.is_of_job]
    known = groups.read_groups(ports, {groups.label_of(run) for run in borne})
    gone = {run.key.ref for run in borne if run.status == lifecycle.PENDING and groups.cancelled(known, run)}
    return [item for item in unended if f"{item['pk']}|{item['sk']}" not in gone] if gone else list(unended)


def _is_aside(rows: Sequence[SetAside], item: Due) -> bool:
    if not isinstance(item, Run):
        return set_aside.any_covers(rows, item.key)
    return set_aside.any_covers(rows, item.key, item.work.pool if item.work else "", item.group)


def is_paused(rows: Sequence[SetAside], item: Item) -> bool:
    """Whether an item may be waiting for the end of a pause: it waits as long as that takes."""
    of_pauses = [row for row in rows if row.who.kind == set_aside.PAUSE]
    run = _unstarted(item) if of_pauses else None
    return run is not None and _is_aside(of_pauses, run)


def _readable(ports: Ports, items: Sequence[Item]) -> list[Run]:
    found: list[Run] = []
    for item in items:
        try:
            found.append(Run.from_item(item))
        except Unreadable as error:
            _told(ports, error)
    return found


def _told(ports: Ports, error: Unreadable) -> None:
    ports.signals.count("scheduler.set_aside_total")
    ports.signals.log("item_set_aside", why=str(error))


def _wakings(ports: Ports, items: Sequence[Item], repairs: Repairs) -> list[ReadyMessage]:
    """Messages for runs whose worker and message are both gone: the start records the attempt as lost. What only a busy
    store keeps from one counts as unsent, so that its bucket is read again."""
    messages = []
    for run in _readable(ports, items):
        try:
            work = work_of(ports, run)
        except Unreadable as error:
            _told(ports, error)
            continue
        except WorldError as error:
            repairs.unsent += 1
            ports.signals.log("overdue_unsent", ref=run.key.ref, why=repr(error))
            continue
        if work is None:
            ports.signals.count("scheduler.set_aside_total")
            ports.signals.log("item_set_aside", why=f"{run.key.ref}: the definition it was fired by is gone")
            continue
        messages.append(ReadyMessage(run.key, work, run.attempt + 1, ports.clock.now_ms(), "audit"))
    return messages


def _restore_retry(ports: Ports, run: Run) -> int:
    """1 when the retry of a waiting run was gone, and is there again."""
    key = endings.retry_key(run.key, run.retry_at_ms, run.attempt + 1)
    if read_status(ports, key) == lifecycle.PENDING:
        return 0  # its own bucket's audit sends it
    creating.prepare_slices(ports, [key])
    if not isinstance(commit(ports, *endings.retry_again(run)), Committed):
        return 0  # the run has gone on meanwhile
    ports.signals.count("runs.retries_restored_total")
    ports.signals.log("retry_restored", ref=run.key.ref, attempt=run.attempt + 1)
    creating.follow_up(ports, [key], by="audit")
    return 1


def mark_ends(ports: Ports, items: Sequence[Item]) -> None:
    """See to it that what did not end well is found: in the index of bad ends, where a version that does not know it
    may have ended it in a deployment, and by its team's row, which whoever ended it may not have come to write."""
    note_teams(ports, {str(item[ends.MARK]).partition("#")[0] for item in items if ends.MARK in item}, again=True)
    for item in items:
        if not ends.is_unmarked(item):
            continue
        try:
            key = parse_ledger_key(str(item["pk"]), str(item["sk"]))
        except ValueError as error:
            _told(ports, Unreadable(str(error)))
            continue
        mark = ends.marking(key, item)
        if mark is not None and isinstance(commit(ports, mark), Committed):
            ports.signals.log("bad_end_marked", ref=key.ref, status=item["status"])


def end_too_late(ports: Ports, unended: Sequence[Item], repairs: Repairs) -> tuple[list[Item], int]:
    """End what nobody has started by its deadline. What is left of the items, and the second after which the first of
    their deadlines has passed that lie ahead; 0: there is none."""
    now_ms = ports.clock.now_ms()
    left: list[Item] = []
    looks: list[int] = []
    for item in unended:
        run = _unstarted(item) if "start_by_ms" in item else None
        if run is None or not deadlines.is_too_late(run, now_ms - deadlines.GRACE_MS) or _is_next(ports, run.key):
            left.append(item)
            looks += [look_s] if run is not None and (look_s := deadlines.look_again_s(run, now_ms)) else []
            continue
        why = deadlines.why_too_late(run)
        if isinstance(commit(ports, deadlines.expire(run, why, now_ms, ports.layout.retention_s)), Committed):
            repairs.expired += 1
            finishing.note_end(ports, run.key, lifecycle.EXPIRED, why, now_ms)
    return left, min(looks, default=0)


def expire_unstarted(ports: Ports, unended: Sequence[Item], since_s: int, repairs: Repairs) -> list[Item]:
    """End what nobody has started for too long; what is left of the items."""
    now_ms = ports.clock.now_ms()
    left: list[Item] = []
    for item in unended:
        run, since_ms = _unstarted(item), since_s * SECOND_MS
        if run is None or not passes.has_expired(run, since_ms, now_ms) or _is_next(ports, run.key):
            left.append(item)
            continue
        work = _readable_work(ports, run)
        waited_ms = _paused_until_ms(ports, run, work)
        if not passes.has_expired(run, max(since_ms, waited_ms), now_ms):
            left.append(item)
            continue
        why = passes.why_expired(work)
        if isinstance(commit(ports, deadlines.expire(run, why, now_ms, ports.layout.retention_s)), Committed):
            repairs.expired += 1
            note_teams(ports, [run.key.team])
            ports.signals.count("runs.expired_total", team=run.key.team)
            ports.signals.log("run_expired", ref=run.key.ref, run_id=run.run_id, why=why)
            finishing.note_outcome(ports, run.key, lifecycle.EXPIRED, now_ms)
    return left


def _paused_until_ms(ports: Ports, run: Run, work: Work | None) -> int:
    """When the pause was over that a run has waited for: its message was sent only then."""
    paused, pool = known_paused(ports).in_cell(run.key.cell), work.pool if work is not None else ""
    return paused.waited_until_ms(run.key.team, pool, run.group, run.key.fire_at_ms, ports.clock.now_ms())


def _readable_work(ports: Ports, run: Run) -> Work | None:
    try:
        return work_of(ports, run)
    except Unreadable:
        return None


def _unstarted(item: Item) -> Run | None:
    """The run of an item that nobody has started; None of a retry, and of what cannot be read (which is told when it is
    mended)."""
    if "run_ref" in item or "attempt" in item or item.get("status") not in (lifecycle.PENDING, lifecycle.WAITING):
        return None
    try:
        return Run.from_item(item)
    except Unreadable:
        return None


def _is_next(ports: Ports, key: LedgerKey) -> bool:
    """Whether an occurrence is still its job's next: then its chain has to be moved on first, and it is no waiting
    run. A definition that cannot be read keeps what it has."""
    if "~" in key.name:
        return False
    try:
        job = read_job(ports, key.job_id)
    except Unreadable:
        return True
    return job is not None and job.next_key(ports.layout.home) == key
