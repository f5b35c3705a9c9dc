"""Checks on single ledger items: one-run, one-owner-effect (of a run), one-attempt-running, every-end-recorded,
cancelled-stays, and no-early-fire at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulator.elements import NEW_HANDLER
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.messages import read_ready
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.core.runs.endings import retry_key
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

# Written out again, not imported: a checker that reads the table it checks would believe a wrong one.
_ENDED = frozenset({"succeeded", "dead", "skipped", "cancelled", "expired", "spent"})
_ALLOWED = frozenset(
    {
        (None, "pending"),
        (None, "skipped"),
        (None, "buffered"),
        ("pending", "pending"),
        ("pending", "running"),
        ("pending", "skipped"),
        ("pending", "cancelled"),
        ("pending", "spent"),
        ("pending", "waiting"),
        ("pending", "expired"),
        ("waiting", "expired"),
        ("waiting", "running"),
        ("waiting", "waiting"),
        ("running", "running"),
        ("running", "succeeded"),
        ("running", "waiting"),
        ("running", "dead"),
        ("running", "cancelled"),
        ("waiting", "cancelled"),
        ("dead", "waiting"),
        ("pending", "buffered"),
        ("buffered", "buffered"),
        ("buffered", "pending"),
        ("buffered", "skipped"),
        ("buffered", "cancelled"),
    }
)
_LOSSES = frozenset({"lost", "timed_out", "interrupted"})
_EARLY_MS = 1_000
_UNCOUNTED_MAX = 10
_EXCUSES = frozenset({"message_lost", "send_refused", "faulty_worker", "worker_outage", "queue_forgets"})
"""Faults after which a run may be without a message, or its message without a worker."""


_WHAT = ("handler", "payload", "payload_id", "url", "lease_s")
"""What a message says that a run is to do."""


class LedgerChecks:
    """`accepted` and `cancelled` are refs that a client was told about; `started_at_ms` first starts, and `changed_ms`
    last changes, by ref; `begun_ms` when the start of each attempt was written, by ref and token."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: dict[str, int] = {}
        self.changed_ms: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self._brought_back_ms: dict[str, int] = {}
        self._what: dict[str, dict[str, Any]] = {}
        self.never_fired: set[str] = set()
        self.started_at_ms: dict[str, int] = {}
        self.begun_ms: dict[tuple[str, int], int] = {}
        self._cancelled_runs: dict[tuple[str, ...], int] = {}
        self._started: dict[tuple[str, ...], str] = {}
        self._promised_ms: dict[tuple[str, int], int] = {}
        self._given_up_ms: dict[tuple[str, int], int] = {}
        self._claims: dict[tuple[str, int], str] = {}
        self._carriers: dict[tuple[str, int], int] = {}
        self._carrying: dict[Process, int] = {}

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None:
            self._check_removed(process, before or {})
            return
        ref = f"{after['pk']}|{after['sk']}"
        was, now = (before["status"] if before else None), after["status"]
        if (
            (was, now) not in _ALLOWED
            and not self._replaces_cancelled(before, now)
            and not _says_who_is_behind(before, after)
        ):
            invariant = "cancelled-stays" if was == "cancelled" else "every-end-recorded"
            raise Violation(invariant, f"{process.name}: {ref} went from {was} to {now}")
        self._world.seen[f"item {was or 'new'} -> {now}"] += 1
        self.changed_ms[ref] = self._world.kernel.now_ms
        if now == "expired" and not after.get("start_by_ms"):  # else its deadline says when
            self._world.checks.sight.expired(process, ref, after)
        if now == "skipped":
            self._world.seen[f"item {after.get('reason')}"] += 1
        if was == "running" and now == "waiting" and before and before.get("cancel_requested"):
            raise Violation("cancelled-stays", f"{process.name} has {ref} wait for a retry, which is to be cancelled")
        self._check_end(process, ref, after)
        self._check_owner(process, ref, before, after)
        self._check_handed_back(process, ref, before, after)
        self._check_counted(process, ref, before, after)
        self._check_bound(process, ref, after)
        if now == "pending":
            self.cancelled.discard(ref)
            self._brought_back_ms[ref] = self._world.kernel.now_ms
            self.never_fired.discard(ref)
        elif now == "running" and (was != "running" or _token(after) != _token(before)):
            self._check_start(process, ref, before or {}, after)

    def _check_removed(self, process: Process, before: Item) -> None:
        """Only a plan that has changed (zone data, a calendar) takes an occurrence out, and only one not yet due."""
        if before.get("status") != "pending" or "job_id" not in before or "attempt" in before:
            raise Violation("every-end-recorded", f"{process.name} deleted {before}")
        if before["scheduled_at_ms"] <= process.earliest_ms():
            raise Violation("every-end-recorded", f"{process.name} deleted {before}, which was due")
        self._world.seen["item replanned"] += 1

    def told_cancelled(self, process: Process, ref: str) -> None:
        """A client was told that it is cancelled. Whoever has registered the job anew since the call began has brought
        it back: the answer came late, and is of the one before."""
        if self._brought_back_ms.get(ref, 0) < process.began_true_ms:
            self.cancelled.add(ref)
            self._cancelled_runs.setdefault(_identity(ref), self._world.kernel.now_ms)

    def sent(self, process: Process, ref: str) -> None:
        """An occurrence that ended as its job's next was never fired: nobody may send it. (What was fired, and
        one-shots, may be cancelled between a window's read and its send; such a message dies at start.)"""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        if item is None and ref in self._world.gone:
            return  # somebody's hand has taken it out meanwhile; the message dies at start
        if item is None or ref in self.never_fired:
            status = "missing" if item is None else item["status"]
            raise Violation("cancelled-stays", f"{process.name} sent {ref}, which is {status}")

    def told_what(self, process: Process, message: dict[str, Any]) -> None:
        """Every message of a run says to do the same, whatever has become of its job (W13)."""
        what = {name: message.get(name) for name in _WHAT}
        first = self._what.setdefault(message["ref"], what)
        if what != first:
            raise Violation("one-definition", f"{process.name} sent {message['ref']} with {what}, at first {first}")
        names = [message.get(name, "") for name in ("previous_at", "scheduled_at", "next_at")]
        if sorted(one for one in names if one) != [one for one in names if one] or names[0] == names[1]:
            raise Violation("one-definition", f"{process.name} sent {message['ref']} between others: {names}")
        if message["attempt"] > 1 and message["ref"].count("~") == 0:
            self._world.seen["retry of a job"] += 1

    def handler_of(self, ref: str) -> str:
        """The handler that a message of the run has named; empty: none was sent, or it is a push."""
        return str(self._what.get(ref, {}).get("handler") or "")

    def woken(self, process: Process, ref: str) -> None:
        """The audit brings a run back whose worker died. Its own message should have, when none was lost."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        earliest_ms = self._world.kernel.now_ms + min(min(seen) for seen in self._world.host_skews_seen_ms)
        is_forsaken = item is not None and item["status"] == "running" and item["lease_until_ms"] < earliest_ms
        if item is None or not is_forsaken or self._world.classes & _EXCUSES:
            return
        if self.handler_of(ref) == NEW_HANDLER:
            return  # some workers have none for it, and leave its message to others, longer each time
        if not any(part.touches(self._world, ref, item) for part in self._world.parts):  # else nobody could start it
            raise Violation("bounded-lag", f"{process.name} had to wake {ref}, though no message of it was lost")

    def granted(self, ref: str, token: int, claim: str, attempt: int) -> None:
        """A start was answered with a grant: no other claim has been told that it holds this attempt. A worker that
        asks again for the answer that it missed names the claim of its first try. `attempt` is the message's."""
        if claim:
            self._carriers[ref, token] = attempt
        if claim and self._claims.setdefault((ref, token), claim) != claim:
            raise Violation("one-attempt-running", f"attempt {token} of {ref} was granted to two claims")

    def carries(self, process: Process, body: str) -> None:
        """A process of the service starts the run of a message by itself (a push)."""
        try:
            self._carrying[process] = int(read_ready(body)["attempt"])
        except (ValueError, RecursionError):
            return

    def given_up(self, process: Process, body: str) -> None:
        """A worker deletes a message: nothing that it was to start, or is to bring back if its worker dies, may be left
        (W2). One that a later attempt's message has taken over from is of no more use."""
        try:
            message = read_ready(body)
        except (ValueError, RecursionError):
            return
        ref, attempt = str(message["ref"]), int(message["attempt"])
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk}) or {}
        if item.get("job_id") and self._world.checks.told.deletions[item["job_id"]]:
            return  # of a job that was made anew since
        if "put_off" in item and item.get("status") in ("waiting", "running"):
            return  # its start was put off: each time a message of its own brings, or has brought, the same attempt
        if item.get("status") == "waiting" and not message.get("retry_ref") and self._is_to_come(ref, item):
            return  # sent anew while the attempt before was running, by whoever woke it
        needed_from = {
            "pending": 1,
            "waiting": item.get("attempt", 0) + 1,
            "running": self._carriers.get((ref, item.get("token", 0)), attempt + 1),
        }
        if attempt >= needed_from.get(str(item.get("status")), attempt + 1):
            what = f"{process.name} deleted the message of attempt {attempt} of {ref}, which is {item['status']}"
            raise Violation("no-lost-timer", what)

    def _is_to_come(self, ref: str, item: Item) -> bool:
        """Whether the message of a waiting run's next attempt is still to be sent: its retry item is pending."""
        key = retry_key(parse_ref(ref), item["retry_at_ms"], item["attempt"] + 1)
        return (self._world.tables.standing(TIMERS, key.as_item()) or {}).get("status") == "pending"

    def promised(self, ref: str, token: int, until_ms: int) -> None:
        """A worker was told that it holds the run until then."""
        self._promised_ms[ref, token] = min(until_ms, self._given_up_ms.get((ref, token), until_ms))

    def gave_up(self, ref: str, token: int, until_ms: int) -> None:
        """A worker gives a run back: it makes no use of it after that, whatever becomes of its call."""
        self._given_up_ms[ref, token] = until_ms
        self.promised(ref, token, self._promised_ms.get((ref, token), until_ms))

    def _check_handed_back(self, process: Process, ref: str, before: Item | None, after: Item) -> None:
        """Nobody keeps the lease of a run that was handed back: nothing may lengthen it."""
        if before is None or before.get("handed_back", 0) != _token(after) or after["status"] != "running":
            return
        if after["lease_until_ms"] > before["lease_until_ms"]:
            raise Violation("one-attempt-running", f"{process.name} revived {ref}, which was handed back")

    def _check_counted(self, process: Process, ref: str, before: Item | None, after: Item) -> None:
        """An attempt that was interrupted costs none, up to ten: it is written down that it does not count."""
        was, now = (sum(one["outcome"] == "interrupted" for one in _records(item)) for item in (before, after))
        if now <= was:
            return
        self._world.seen["attempt interrupted"] += 1
        uncounted = (before or {}).get("interrupted", 0)
        if after.get("interrupted", 0) != min(_UNCOUNTED_MAX, uncounted + 1):
            raise Violation("every-end-recorded", f"{process.name}: an interruption of {ref} counts as an attempt")

    def _check_end(self, process: Process, ref: str, after: Item) -> None:
        if after["status"] not in _ENDED:
            if "expires_at_s" in after and "group" not in after:  # else groups.py judges it
                raise Violation("no-lost-timer", f"{process.name}: {ref} is {after['status']} and would expire")
            return
        if not after.get("ended_at_ms") or not after.get("expires_at_s"):
            raise Violation("every-end-recorded", f"{process.name}: {ref} ended without a time")
        if after["status"] != "succeeded" and not after.get("reason"):
            raise Violation("every-end-recorded", f"{process.name}: {ref} is {after['status']} without a reason")
        ended = len(after.get("attempts", ()))
        if ended != after.get("attempt", 0) - (after["status"] == "succeeded") and "run_ref" not in after:
            raise Violation("every-end-recorded", f"{process.name}: {ref} ended with {ended} attempts on record")

    def _check_bound(self, process: Process, ref: str, after: Item) -> None:
        """A lease ends with the time that its attempt may take, whoever extends it."""
        stop_at_ms = after.get("stop_at_ms")
        if after["status"] == "running" and stop_at_ms and after["lease_until_ms"] > stop_at_ms:
            what = f"{process.name} leased {ref} until {after['lease_until_ms']}, and it may run until {stop_at_ms}"
            raise Violation("bounded-attempts", what)

    def _check_owner(self, process: Process, ref: str, before: Item | None, after: Item) -> None:
        """A process may have been granted a token, have paused, and ask again: it then takes over, or ends, the attempt
        that it reads, as any start does with one whose lease has lapsed. That goes by no earlier grant."""
        token, was = _token(after), _token(before)
        granted = process.tokens.get(ref)
        takes_over = token > was or _records_loss(before, after)
        if token < was or (granted is not None and granted < was and not takes_over):
            what = f"{process.name} (token {granted}) wrote {ref}, which was at token {was}"
            raise Violation("one-owner-effect", what)

    def _check_start(self, process: Process, ref: str, before: Item, after: Item) -> None:
        world = self._world
        now_ms, skew_ms = world.kernel.now_ms, world.faults.skew_max_ms
        if ref in self.cancelled:
            raise Violation("cancelled-stays", f"{process.name} started {ref} after its cancellation was answered")
        if _identity(ref) in self._cancelled_runs and not self._world.checks.told.deletions[after.get("job_id", "")]:
            raise Violation(
                "cancelled-stays", f"{process.name} started {ref}, which was cancelled where it stood before"
            )
        if before.get("cancel_requested"):
            raise Violation("cancelled-stays", f"{process.name} started {ref} again, which is to be cancelled")
        if _token(after) != _token(before) + 1 or after["attempt"] != before.get("attempt", 0) + 1:
            raise Violation("one-owner-effect", f"{process.name}: the start of {ref} did not raise its token")
        promised_ms = self._promised_ms.get((ref, _token(before)), 0)
        if before.get("status") == "running" and max(before["lease_until_ms"], promised_ms) > now_ms + skew_ms:
            raise Violation("one-attempt-running", f"{process.name} took {ref} from a live attempt")
        if len(after.get("attempts", ())) != after["attempt"] - 1:
            raise Violation("every-end-recorded", f"{process.name}: an attempt of {ref} is not on record")
        due_ms = before.get("retry_at_ms") if before.get("status") == "waiting" else int(after["sk"][:10]) * 1_000
        if due_ms and now_ms + skew_ms + _EARLY_MS < due_ms:
            raise Violation("no-early-fire", f"{process.name} started {ref} {due_ms - now_ms} ms early")
        identity = tuple(after["sk"].split("#")[1:])
        if self._started.setdefault(identity, ref) != ref:
            raise Violation("one-run", f"{process.name} started {ref} beside {self._started[identity]}")
        process.tokens[ref] = _token(after)
        if process in self._carrying:
            self._carriers[ref, _token(after)] = self._carrying[process]
        self.begun_ms[ref, _token(after)] = now_ms
        self.started_at_ms.setdefault(ref, now_ms)
        self._unsafe_once(process, ref, after)
        self._world.checks.lags.started(ref, after)
        self._world.checks.skips.started(process, ref, after)
        self._world.checks.freezes.started(process, ref, after)
        self._world.checks.paused.started(process, ref, after)

    def _replaces_cancelled(self, before: Item | None, now: str) -> bool:
        """What a change or a deletion has given up may come back, if it never started; what somebody cancelled only in
        a job that was made anew."""
        if (
            before is None
            or before["status"] != "cancelled"
            or "attempt" in before
            or now not in ("pending", "skipped")
        ):
            return False
        was_given_up = str(before["reason"]).startswith("the job was ")
        return was_given_up or bool(self._world.checks.told.deletions[before["job_id"]])

    def _unsafe_once(self, process: Process, ref: str, after: Item) -> None:
        """What is unsafe is started once and never again by itself; a person may replay it."""
        work = after.get("work") or self._world.work_of(after.get("job_id", ""))
        if not isinstance(work, dict) or work.get("idempotency_class") != "unsafe":
            return
        self._world.seen["unsafe started"] += 1
        if after["attempt"] > 1 and not after.get("replays") and "job_id" not in after:
            raise Violation("at-most-once", f"{process.name} started {ref} again, which is unsafe")


def _identity(ref: str) -> tuple[str, ...]:
    """A run by its job, its nominal time and what asked for it, wherever it stands."""
    return tuple(ref.partition("|")[2].split("#")[1:])


def _says_who_is_behind(before: Item | None, after: Item) -> bool:
    """One that was cancelled while it waited for its job is stepped over when its turn comes: it says who is next."""
    return before is not None and "behind" in after and before | {"behind": after["behind"]} == after


def _records_loss(before: Item | None, after: Item) -> bool:
    """Whether a write ends a lapsed attempt: the record it adds is of that attempt, and of no outcome of its worker."""
    records = after.get("attempts", ())[len((before or {}).get("attempts", ())) :]
    return any(
        one["token"] == _token(before) and one["outcome"] in ("lost", "timed_out", "interrupted") for one in records
    )


def _records(item: Item | None) -> list[Item]:
    return list(item.get("attempts", ())) if item else []


def _token(item: Item | None) -> int:
    token: int = item.get("token", 0) if item else 0
    return token
