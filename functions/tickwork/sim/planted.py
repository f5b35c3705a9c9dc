"""The planted bugs: each a small change of production code that leaves out, or turns around, one step on which an
invariant rests. `patches` says what is replaced by what; nothing is changed before `mutants.planted` does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from tickwork.core import attempts, chain, endings, lifecycle, slices
from tickwork.core.attempts import Declined, Try
from tickwork.core.errors import Unsent
from tickwork.core.keys import LedgerKey
from tickwork.core.records import Job, Retry, Run, SliceLease
from tickwork.core.tables import JOBS, LEASES
from tickwork.core.writes import Anyway, Check, Committed, Is, Item, Put, Refused, Update, Write, all_of
from tickwork.flows import commit as committing
from tickwork.flows import creating, firing, jobs, leasing, reconciling, runs, sending, ticking, windows
from tickwork.flows.firing import Fired
from tickwork.flows.sending import Sent
from tickwork.ports import Layout, Page, Ports
from tickwork.sim.planted_backlog import BACKLOG
from tickwork.sim.store import SimStore

type Patch = tuple[Any, str, Any]
"""Module or class, the name of the attribute, what to put there."""


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    patches: Callable[[], Sequence[Patch]]


def _unconditional(write: Update) -> Update:
    return replace(write, condition=Anyway("planted"))


def _with_condition(original: Callable[..., Update], condition: Callable[..., Any]) -> Callable[..., Update]:
    def wrong(*arguments: Any, **named: Any) -> Update:
        return replace(original(*arguments, **named), condition=condition(*arguments))

    return wrong


# --- the lease and the cursors --------------------------------------------------------------------------------


def _advance_without_token() -> Sequence[Patch]:
    wrong = _with_condition(slices.advance, lambda lease, *_: Is("done", lease.done))
    return [(slices, "advance", wrong)]


def _advance_without_cas() -> Sequence[Patch]:
    return [(slices, "advance", _with_condition(slices.advance, lambda lease, *_: Is("token", lease.token)))]


def _advance_before_send() -> Sequence[Patch]:
    right = windows._Window._serve_range

    def wrong(self: Any, first: int, last: int) -> Fired:
        leasing.advance(self.ports, self.holding, last, release=False)
        return right(self, first, last)

    return [(windows._Window, "_serve_range", wrong)]


def _announce_after_read() -> Sequence[Patch]:
    taken, advance = slices.taken, slices.advance

    def wrong_taken(lease: SliceLease, *arguments: Any) -> SliceLease:
        return replace(taken(lease, *arguments), closing=lease.closing)

    def wrong_advance(lease: SliceLease, done: int, *, release: bool) -> Update:
        write = advance(lease, done, release=release)
        return replace(write, set={**write.set, "closing": max(done, lease.closing)})

    return [(slices, "taken", wrong_taken), (slices, "advance", wrong_advance)]


def _closing_goes_back() -> Sequence[Patch]:
    right = slices.taken
    return [(slices, "taken", lambda lease, owner, s, now_ms: replace(right(lease, owner, s, now_ms), closing=s))]


def _take_without_condition() -> Sequence[Patch]:
    right = slices.take
    return [(slices, "take", lambda before, after: _unconditional(right(before, after)))]


def _same_token() -> Sequence[Patch]:
    right = slices.taken
    return [(slices, "taken", lambda lease, *rest: replace(right(lease, *rest), token=max(1, lease.token)))]


def _release_without_token() -> Sequence[Patch]:
    give_back, report = slices.give_back, windows._Window._report

    def wrong_report(self: Any, outcome: str, total: Fired) -> Any:
        if outcome == windows.FENCED:
            leasing.give_back(self.ports, self.holding)
        return report(self, outcome, total)

    return [
        (slices, "give_back", lambda lease: _unconditional(give_back(lease))),
        (windows._Window, "_report", wrong_report),
    ]


def _next_not_fenced() -> Sequence[Patch]:
    def wrong(lease: SliceLease) -> Check:
        return Check(LEASES, {"slice": lease.slice}, Is("slice", lease.slice))

    return [(slices, "fence", wrong)]


# --- the window -----------------------------------------------------------------------------------------------


def _edge_triggered() -> Sequence[Patch]:
    right = windows._Window._serve_range
    return [(windows._Window, "_serve_range", lambda self, _, last: right(self, last, last))]


def _first_page_only() -> Sequence[Patch]:
    def wrong(self: Any, first: int, last: int) -> Any:
        store, query = self.ports.store, self.ports.store.query

        def one_page(*arguments: Any, **named: Any) -> Page:
            page: Page = query(*arguments, **named)
            return replace(page, more=None)

        ports = replace(self.ports, store=_Overlay(store, query=one_page))
        pages: Any = right(replace_window(self, ports), first, last)
        return pages

    right = windows._Window._pages
    return [(windows._Window, "_pages", wrong)]


class _Overlay:
    """A port with some of its methods replaced."""

    def __init__(self, port: Any, **methods: Any) -> None:
        self._port = port
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def replace_window(window: Any, ports: Ports) -> Any:
    return windows._Window(ports, window.slice_no, window.until, window.holding, window.deadline_ms, window.stepped)


def _stale_window_read() -> Sequence[Patch]:
    right = SimStore.query

    def wrong(self: Any, *arguments: Any, **named: Any) -> Page:
        page = right(self, *arguments, **named)
        if self._process.kind != "scanner":
            return page
        seen_ms = self._process.world.kernel.now_ms - 1_500
        return replace(page, items=tuple(item for item in page.items if item.get("created_at_ms", 0) <= seen_ms))

    return [(SimStore, "query", wrong)]


def _forgets_own_next() -> Sequence[Patch]:
    return [(windows._Window, "_see_to", lambda *_: [])]


def _unsent_is_forgotten() -> Sequence[Patch]:
    right = sending.send_ready
    return [(firing, "send_ready", lambda ports, messages: replace(right(ports, messages), unsent=0))]


def _partial_failures_not_read() -> Sequence[Patch]:
    def wrong(ports: Ports, queue: str, outgoing: Sequence[Any]) -> tuple[int, int, int]:
        ports.sender.send(queue, outgoing)
        return len(outgoing), 0, 0

    return [(sending, "_send_patiently", wrong)]


def _old_shards_not_read() -> Sequence[Patch]:
    return [(Layout, "shards_of", lambda self, slice_no: range(slice_no, self.shards, self.slices))]


def _no_lookahead() -> Sequence[Patch]:
    return [(ticking, "_due_seconds", lambda *_: set())]


# --- creators -------------------------------------------------------------------------------------------------


def _creator_does_not_look() -> Sequence[Patch]:
    return [(creating, "follow_up", lambda *_, **__: Fired())]


def _creator_reads_done() -> Sequence[Patch]:
    def wrong(ports: Ports, slice_no: int) -> SliceLease | None:
        lease = leasing.read_lease(ports, slice_no)
        return None if lease is None else replace(lease, closing=lease.done)

    return [(creating, "leasing", SimpleNamespace(read_lease=wrong, ensure_lease=leasing.ensure_lease))]


def _creator_looks_before_write() -> Sequence[Patch]:
    """The cursors are read with the ones that are ensured before the put, and believed after it."""
    prepare = creating.prepare_slices
    seen: dict[tuple[int, int], SliceLease | None] = {}

    def wrong_prepare(ports: Ports, keys: Sequence[Any]) -> None:
        prepare(ports, keys)
        for key in keys:
            slice_no = ports.layout.slice_of(key.shard)
            seen[id(ports), slice_no] = leasing.read_lease(ports, slice_no)

    def wrong_read(ports: Ports, slice_no: int) -> SliceLease | None:
        if (id(ports), slice_no) in seen:
            return seen.pop((id(ports), slice_no))
        return leasing.read_lease(ports, slice_no)

    stand_in = SimpleNamespace(read_lease=wrong_read, ensure_lease=leasing.ensure_lease)
    return [(creating, "prepare_slices", wrong_prepare), (creating, "leasing", stand_in)]


def _creator_answers_anyway() -> Sequence[Patch]:
    right = creating.follow_up

    def wrong(*arguments: Any, **named: Any) -> Fired:
        try:
            return right(*arguments, **named)
        except Unsent:
            return Fired()

    return [(creating, "follow_up", wrong)]


def _no_tick_for_near_timers() -> Sequence[Patch]:
    return [(creating, "send_ticks", lambda *_: 0)]


def _retry_without_rule() -> Sequence[Patch]:
    return [(runs, "creating", SimpleNamespace(follow_up=lambda *_, **__: Fired()))]


# --- chains ---------------------------------------------------------------------------------------------------


def _next_from_now() -> Sequence[Patch]:
    right = chain.plan_step

    def wrong(job: Any, due: Any, now_ms: int, shards: int) -> Any:
        step = right(job, due, now_ms, shards)
        return replace(step, next=chain.following(job, max(now_ms, due.scheduled_at_ms), shards))

    return [(chain, "plan_step", wrong)]


def _refusal_means_resend() -> Sequence[Patch]:
    def wrong(ports: Ports, stale: Run, given: Any, fired: Fired) -> Any:
        item = ports.store.get(JOBS, {"job_id": stale.key.job_id})
        return [firing._message(ports, stale, Job.from_item(item).work, given)] if item else []

    return [(firing, "_step_again", wrong)]


def _refusal_means_drop() -> Sequence[Patch]:
    return [(firing, "_step_again", lambda *_: [])]


def _lost_reply_forgotten() -> Sequence[Patch]:
    right = firing._step_again

    def wrong(ports: Ports, stale: Run, given: Any, fired: Fired) -> Any:
        before = list(fired.materialised)
        messages = right(ports, stale, given, fired)
        fired.materialised[:] = before
        return messages

    return [(firing, "_step_again", wrong)]


def _send_before_step() -> Sequence[Patch]:
    right = firing._step_chains

    def wrong(ports: Ports, due: Sequence[Run], known: Any, given: Any, fired: Fired) -> Any:
        early = [firing._message(ports, r, known[r.key.job_id].work, given) for r in due if r.key.job_id in known]
        if early:
            sending.send_ready(ports, early)
        return right(ports, due, known, given, fired)

    return [(firing, "_step_chains", wrong)]


def _one_by_one(ports: Ports, *writes: Write) -> Committed | Refused:
    result: Committed | Refused = Committed()
    for write in writes:
        result = committing.commit(ports, write)
        if isinstance(result, Refused):
            return result
    return result


def _step_without_transaction() -> Sequence[Patch]:
    def wrong(ports: Ports, *writes: Write) -> Committed | Refused:
        return _one_by_one(ports, *(write for write in writes if not isinstance(write, Check)))

    return [(firing, "commit", wrong)]


def _skip_without_record() -> Sequence[Patch]:
    right = chain.step_writes

    def wrong(*arguments: Any) -> tuple[Write, ...]:
        return tuple(
            write
            for write in right(*arguments)
            if not (isinstance(write, Put) and write.item.get("status") == lifecycle.SKIPPED)
        )

    return [(chain, "step_writes", wrong)]


def _pending_expires() -> Sequence[Patch]:
    right = chain.materialise

    def wrong(job: Job, key: LedgerKey, now_ms: int) -> Put:
        write = right(job, key, now_ms)
        return replace(write, item={**write.item, "expires_at_s": now_ms // 1000 + 86_400})

    return [(chain, "materialise", wrong)]


def _delete_leaves_next() -> Sequence[Patch]:
    right = jobs._deletion
    return [(jobs, "_deletion", lambda ports, job: right(ports, job)[:1])]


# --- attempts -------------------------------------------------------------------------------------------------


def _lost_claim_discards() -> Sequence[Patch]:
    right = attempts.decide_start

    def wrong(*arguments: Any) -> Any:
        decision = right(*arguments)
        return replace(decision, discard=True) if isinstance(decision, Declined) else decision

    return [(attempts, "decide_start", wrong)]


def _start_whatever_status() -> Sequence[Patch]:
    right = attempts.first_start
    return [(attempts, "first_start", lambda request, now_ms: _unconditional(right(request, now_ms)))]


def _steal_live_attempt() -> Sequence[Patch]:
    right = attempts.decide_start

    def wrong(run: Run | None, request: Any, work: Any, now_ms: int, retention_s: int) -> Any:
        if run is not None and run.status == lifecycle.RUNNING and run.claim != request.claim:
            return attempts._reclaim(run, request, work, now_ms, retention_s)
        return right(run, request, work, now_ms, retention_s)

    return [(attempts, "decide_start", wrong)]


def _loss_not_recorded() -> Sequence[Patch]:
    right = attempts._reclaim

    def wrong(*arguments: Any) -> Try:
        decided = right(*arguments)
        writes = tuple(replace(w, append={}) if isinstance(w, Update) else w for w in decided.writes)
        return replace(decided, writes=writes)

    return [(attempts, "_reclaim", wrong)]


def _end_without_token() -> Sequence[Patch]:
    without_token = all_of(Is("status", lifecycle.RUNNING))
    return [(module, "running_with", lambda _: without_token) for module in (attempts, endings)]


def _stale_message_starts_retry() -> Sequence[Patch]:
    right = attempts._start_retry

    def wrong(run: Run, request: Any, work: Any, now_ms: int, retention_s: int) -> Any:
        item_at = endings.retry_key(run.key, 0, run.attempt + 1)
        asked = replace(request, attempt=run.attempt + 1, retry=request.retry or item_at)
        decision = right(run, asked, work, now_ms, retention_s)
        return replace(decision, writes=decision.writes[:1]) if isinstance(decision, Try) else decision

    return [(attempts, "_start_retry", wrong)]


def _retry_not_in_transaction() -> Sequence[Patch]:
    return [(runs, "commit", _one_by_one)]


def _cancel_whatever_status() -> Sequence[Patch]:
    right = chain.end_pending
    return [(chain, "end_pending", lambda *arguments: _unconditional(right(*arguments)))]


# --- the reconciler -------------------------------------------------------------------------------------------


def _no_audit() -> Sequence[Patch]:
    return [(reconciling, "_audit", lambda *_: None)]


def _audit_only_once() -> Sequence[Patch]:
    return [(reconciling, "AUDITS", {"audited": 300})]


def _audit_moves_on() -> Sequence[Patch]:
    right = reconciling._audit_range

    def wrong(*arguments: Any) -> bool:
        right(*arguments)
        return True

    return [(reconciling, "_audit_range", wrong), (reconciling, "AUDITS", {"audited": 300})]


def _audit_begins_at_cursor() -> Sequence[Patch]:
    right = slices.first_lease

    def wrong(slice_id: str, second: int) -> Put:
        write = right(slice_id, second)
        late: Item = dict.fromkeys(reconciling.AUDITS, second - 1)
        return replace(write, item={**write.item, **late})

    return [(slices, "first_lease", wrong)]


def _lapsed_not_woken() -> Sequence[Patch]:
    return [(reconciling, "_wake_lapsed", lambda *_: Sent())]


def _deleted_job_stops_pass() -> Sequence[Patch]:
    right = reconciling._replace_next

    def wrong(ports: Ports, read: Any) -> int:
        jobs.get_job(ports, read.job_id)
        return right(ports, read)

    return [(reconciling, "_replace_next", wrong)]


def _poison_stops_slice() -> Sequence[Patch]:
    def wrong(ports: Ports, items: Any) -> list[Any]:
        pending = [item for item in items if item["status"] == lifecycle.PENDING]
        return [Retry.from_item(item) if "run_ref" in item else Run.from_item(item) for item in pending]

    return [(windows, "read_items", wrong)]


PLANTED = (
    Bug("advance without the token", _advance_without_token),
    Bug("advance without compare-and-set", _advance_without_cas),
    Bug("advance before the send", _advance_before_send),
    Bug("read before the announcement", _announce_after_read),
    Bug("closing may go back", _closing_goes_back),
    Bug("take the lease without a condition", _take_without_condition),
    Bug("take the lease with the same token", _same_token),
    Bug("release a lease unconditionally", _release_without_token),
    Bug("next occurrence is not fenced", _next_not_fenced),
    Bug("a window serves its own second only", _edge_triggered),
    Bug("a window reads the first page only", _first_page_only),
    Bug("a window reads eventually consistently", _stale_window_read),
    Bug("the scanner forgets its own next", _forgets_own_next),
    Bug("what could not be sent is forgotten", _unsent_is_forgotten),
    Bug("partial failures of a batch are not read", _partial_failures_not_read),
    Bug("shards of the old layout are not read", _old_shards_not_read),
    Bug("the ticker does not look ahead", _no_lookahead),
    Bug("a creator does not look at closing", _creator_does_not_look),
    Bug("a creator looks at done", _creator_reads_done),
    Bug("a creator looks before it writes", _creator_looks_before_write),
    Bug("a creator answers though nothing was sent", _creator_answers_anyway),
    Bug("a near timer brings no tick", _no_tick_for_near_timers),
    Bug("a retry without the creator's rule", _retry_without_rule),
    Bug("next computed from now", _next_from_now),
    Bug("a refusal always means resend", _refusal_means_resend),
    Bug("a refusal always means drop", _refusal_means_drop),
    Bug("a step whose reply was lost is forgotten", _lost_reply_forgotten),
    Bug("chain moved after the send", _send_before_step),
    Bug("a step without a transaction", _step_without_transaction),
    Bug("a skip without a record", _skip_without_record),
    Bug("a pending item expires", _pending_expires),
    Bug("delete leaves the pending occurrence", _delete_leaves_next),
    Bug("delete the message of a lost claim", _lost_claim_discards),
    Bug("start whatever the status", _start_whatever_status),
    Bug("take a run from a live attempt", _steal_live_attempt),
    Bug("a lost attempt is not recorded", _loss_not_recorded),
    Bug("complete without the token", _end_without_token),
    Bug("a stale message starts a waiting run", _stale_message_starts_retry),
    Bug("the retry is not in the failure's transaction", _retry_not_in_transaction),
    Bug("cancel whatever the status", _cancel_whatever_status),
    Bug("no ledger audit", _no_audit),
    Bug("the ledger is audited once only", _audit_only_once),
    Bug("the audit moves on past what it could not send", _audit_moves_on),
    Bug("the audit begins at the cursor", _audit_begins_at_cursor),
    Bug("a lapsed run is not woken", _lapsed_not_woken),
    Bug("a deleted job stops the reconciler", _deleted_job_stops_pass),
    Bug("an unreadable item stops its slice", _poison_stops_slice),
    *(Bug(name, patches) for name, patches in BACKLOG),
)
