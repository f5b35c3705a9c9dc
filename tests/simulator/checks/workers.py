"""Checks on the production worker (W2, W3, W14): by what it was answered, it goes on exactly as long as its lease,
gives up after two failed heartbeats and not for less, and reports only what is still its own.

All instants are true time: a lease lasts from its answer, by what that says, and no clocks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import TIMERS
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_FAILED_MAX = 2
"""Written out again (W3): after so many heartbeats that failed in a row an attempt is given up."""
_UNDECIDED = frozenset({"busy", "contended", "unreadable"})
"""Answers that say nothing of the run."""
_STALE_MS = 3_000
"""How long it may take to notice: the watch's look, a step of the job."""
_SOON_MS = 1_000
_SLOW_MS = 10_000
_LOSSES = frozenset({"lost", "timed_out", "interrupted"})

type Attempt = tuple[str, int]
"""A run by its id, and the token."""


@dataclass(slots=True)
class _Lease:
    """What a worker was told of an attempt: until when it has it at most, and at least; how many heartbeats in a row
    have failed, the last of them when; that it is its no more; and that this is so though it was not cancelled."""

    until_ms: int
    surely_ms: int
    failed: int = 0
    failed_at_ms: int = 0
    is_refused: bool = False
    is_lost: bool = False


class WorkerChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._leases: dict[Attempt, _Lease] = {}
        self.gave_up: set[Attempt] = set()
        """Attempts of which their jobs have said that no retry can help."""

    # --- what workers are told --------------------------------------------------------------------------------

    def answered(
        self, path: str, asked: list[dict[str, Any]], runs: list[dict[str, Any]], when: tuple[int, int]
    ) -> None:
        """An answer has arrived. `when`: its question was put, and it was given."""
        asked_ms, given_ms = when
        for one, run in zip(asked, runs, strict=True):
            attempt = parse_ref(run["ref"]).run_id, int(run.get("token") or one.get("token", 0))
            if run.get("granted") or (run.get("accepted") and "lease_ms" in run):
                self._leases[attempt] = _Lease(given_ms + run["lease_ms"], asked_ms + run["lease_ms"])
            elif path.endswith(":heartbeat"):
                self._beat_failed(attempt, str(run.get("reason")))
            elif path.endswith(":complete") and run.get("accepted"):
                self.ended(run["ref"], attempt[1], has_succeeded=one.get("outcome") == "succeeded")

    def unanswered(self, path: str, asked: list[dict[str, Any]]) -> None:
        """Nothing came, or a refusal of the whole call."""
        if path.endswith(":heartbeat"):
            for one in asked:
                self._beat_failed((parse_ref(one["ref"]).run_id, one["token"]), "busy")

    def _beat_failed(self, attempt: Attempt, reason: str) -> None:
        lease = self._leases.get(attempt)
        if lease is not None:
            lease.failed += 1
            lease.failed_at_ms = self._world.kernel.now_ms
            lease.is_refused |= reason not in _UNDECIDED
            # A cancelled run may have ended by this very worker's report, of which the answer is not here yet.
            lease.is_lost |= reason not in _UNDECIDED | {"cancelled"}

    # --- what workers do --------------------------------------------------------------------------------------

    def works(self, attempt: Attempt) -> None:
        """The job goes on."""
        lease = self._leases.get(attempt)
        if lease is None:
            return
        now_ms = self._world.kernel.now_ms
        if now_ms > lease.until_ms + _STALE_MS:
            self._fail(
                "one-attempt-running", f"{attempt} goes on {now_ms - lease.until_ms} ms after its lease was over"
            )
        if (lease.failed >= _FAILED_MAX or lease.is_refused) and now_ms > lease.failed_at_ms + _STALE_MS:
            self._fail("one-attempt-running", f"{attempt} goes on after {lease.failed} heartbeats have failed")

    def was_stopped(self, attempt: Attempt) -> None:
        """The job was told that its lease is lost."""
        lease = self._leases.get(attempt)
        if lease is None or lease.is_refused or lease.failed >= _FAILED_MAX:
            return
        left_ms = lease.surely_ms - self._world.kernel.now_ms
        if left_ms > _SOON_MS:
            self._fail("bounded-attempts", f"{attempt} was stopped {left_ms} ms before its lease was over")

    def was_slow(self, attempt: Attempt) -> bool:
        """Whether the answer that gave the lease had been long on its way, or a later try's."""
        lease = self._leases.get(attempt)
        return lease is not None and lease.until_ms - lease.surely_ms > _SLOW_MS

    def reports(self, asked: list[dict[str, Any]]) -> None:
        """A worker tells how attempts have ended: only of those that it has not lost."""
        for one in asked:
            attempt = parse_ref(one["ref"]).run_id, one["token"]
            lease, now_ms = self._leases.get(attempt), self._world.kernel.now_ms
            if lease is None:
                continue
            if lease.is_lost or lease.failed >= _FAILED_MAX or now_ms > lease.until_ms + _STALE_MS:
                self._fail("one-owner-effect", f"{attempt} is reported as {one.get('outcome')}, and its lease was lost")

    def _fail(self, invariant: str, what: str) -> None:
        self._world.fail(Violation(invariant, what))

    def beat_refused(self, process: Process, ref: str, token: int, reason: str) -> None:
        """A heartbeat was refused: the attempt is over, or another's, or somebody has just been at it."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        changed_ms = self._world.checks.ledger.changed_ms.get(ref, 0)
        if item is None or item["status"] != "running" or item["token"] != token or item.get("handed_back") == token:
            return
        if process.met_failure or process.latest_ms() >= item.get("stop_at_ms", process.latest_ms() + 1):
            return
        if changed_ms < self._world.kernel.now_ms - _SOON_MS:
            self._fail("bounded-attempts", f"{process.name}: a heartbeat of {ref} was {reason}, and it still runs")

    # --- what becomes of it -----------------------------------------------------------------------------------

    def ended(self, ref: str, token: int, *, has_succeeded: bool) -> None:
        """A worker was told that what it reports is accepted: it is its own attempt that has ended so."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        if item is None:
            return
        if has_succeeded:
            if (item["status"], item["token"]) != ("succeeded", token):
                what = f"the success of attempt {token} of {ref} was accepted, which is {item['status']}"
                self._fail("one-owner-effect", f"{what} by {item['token']}")
            return
        outcomes = {str(one["outcome"]) for one in item.get("attempts", ()) if one["token"] == token}
        if outcomes and outcomes <= _LOSSES:
            self._fail("one-owner-effect", f"the failure of attempt {token} of {ref} was accepted, which is {outcomes}")

    def buried(self, process: Process, ref: str, before: dict[str, Any], reason: str) -> None:
        """A run was given up for good with attempts left: its job has said so."""
        attempt = parse_ref(ref).run_id, int(before["token"])
        if reason == "failed for good" and attempt not in self.gave_up:
            raise Violation("no-lost-timer", f"{process.name} buried {ref}, and its job has not said that it is broken")
