"""Checks on how attempts are counted, spaced and recorded (W5, W6): by the policy of the run's own definition, which is
read here from its item, and by arithmetic that shares no code with what it checks.

A run of a job goes by the definition that fired it; where its job was changed, or cannot be read, nothing is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulator.rollouts import work_as_planned
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_ATTEMPTS, _BASE_S, _CAP_S, _JITTER_PERCENT = 5, 30, 3_600, 20
"""What a policy has that does not say it (W5)."""
_ASKED_S = 20
"""The longest wait that a simulated job, or the target of a push, asks for."""
_USED_UP = ("out of attempts", "lost", "timed_out")
"""Reasons of an end that say: no attempt was left."""
_ROUND_MS = SECOND_MS
_OF_AN_ATTEMPT = frozenset({"lease_until_ms", "claim", "stop_at_ms", "cancel_requested", "slots", "handed_back"})
_PAYLOAD_LOST = "PayloadLost"
"""The error class of an attempt that the platform itself ends."""


class AttemptChecks:
    def __init__(self, world: World) -> None:
        self._world = world

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """A run has gone from one status to another."""
        if before is None or after is None or "run_ref" in after:
            return
        ref = f"{after['pk']}|{after['sk']}"
        self._check_kind(process, ref, before, after)
        self._check_over(process, ref, before, after)
        self._check_bound(process, ref, before, after)
        policy = self._policy(after)
        if policy is None:
            return
        was, now = before["status"], after["status"]
        if now == "running" and after["attempt"] > before.get("attempt", 0):
            self._check_allowed(process, ref, after, policy)
        elif (was, now) == ("running", "dead"):
            self._check_used_up(process, ref, before, after, policy)
        elif (was, now) == ("running", "waiting") and "put_off" not in after:
            self._check_wait(process, ref, before, after, policy)

    def _policy(self, run: Item) -> dict[str, Any] | None:
        """None where nobody here can say."""
        if "work" in run:
            work = run["work"]
        else:
            job_id = run.get("job_id", "")
            told = self._world.checks.told
            if told.changes[job_id] or told.deletions[job_id] or job_id in self._world.garbled:
                return None
            work = (self._world.tables.standing(JOBS, {"job_id": job_id}) or {}).get("work")
            work = work_as_planned(self._world, work, run)
        if not isinstance(work, dict) or run.get("definition"):
            return None
        return dict(work.get("retry", {})) | {"unsafe": work.get("idempotency_class") == "unsafe"}

    def _work(self, run: Item) -> dict[str, Any]:
        work = run.get("work") or self._world.work_of(run.get("job_id", ""))
        return work if isinstance(work, dict) else {}

    def _check_over(self, process: Process, ref: str, before: Item, after: Item) -> None:
        """Nothing of an attempt outlives it: what comes next is bound by none of it."""
        left = sorted(_OF_AN_ATTEMPT & after.keys())
        if before["status"] == "running" and after["status"] != "running" and left:
            raise Violation("every-end-recorded", f"{process.name} ended an attempt of {ref}, and left its {left}")

    def _check_bound(self, process: Process, ref: str, before: Item, after: Item) -> None:
        """An attempt may take as long as its run's definition says, and no bound of another's (W13)."""
        if after["status"] != "running" or after["token"] == before.get("token", 0):
            return
        if "work" not in after and self._policy(after) is None:
            return
        longest_s, stop_at_ms = self._work(after).get("max_duration_s", 0), after.get("stop_at_ms")
        if not longest_s and stop_at_ms is None:
            return
        earliest_ms, latest_ms = (
            process.earliest_ms() + longest_s * SECOND_MS,
            process.latest_ms() + longest_s * SECOND_MS,
        )
        if not longest_s or stop_at_ms is None or not earliest_ms - _ROUND_MS <= stop_at_ms <= latest_ms + _ROUND_MS:
            raise Violation(
                "attempts", f"{process.name} began {ref} to stop at {stop_at_ms}, with {longest_s} s to take"
            )

    def _check_allowed(self, process: Process, ref: str, after: Item, policy: dict[str, Any]) -> None:
        """No attempt beyond the policy's number."""
        number = after["attempt"] - _uncounted(after)
        if number > policy.get("max_attempts", _ATTEMPTS):
            raise Violation("attempts", f"{process.name} began attempt {number} of {ref}, against {policy}")

    def _check_used_up(self, process: Process, ref: str, before: Item, after: Item, policy: dict[str, Any]) -> None:
        """None is given up while attempts are left to it."""
        reason = str(after.get("reason", ""))
        if "url" not in self._work(after) and _last_class(after) != _PAYLOAD_LOST:
            self._world.checks.workers.buried(process, ref, before, reason)
        if policy["unsafe"] or not reason.startswith(_USED_UP):
            return
        number = before["attempt"] - _uncounted(before)
        if number < policy.get("max_attempts", _ATTEMPTS):
            raise Violation("attempts", f"{process.name} buried {ref} ({reason}) after attempt {number}, with {policy}")

    def _check_wait(self, process: Process, ref: str, before: Item, after: Item, policy: dict[str, Any]) -> None:
        """The wait doubles with each attempt that counts, up to the cap, and is spread by a fifth to either side."""
        if _last_outcome(after) == "interrupted":
            return
        base_s, cap_s = policy.get("base_s", _BASE_S), policy.get("cap_s", _CAP_S)
        whole_ms = min(base_s * 2 ** min(before["attempt"] - _uncounted(before), 40), cap_s) * SECOND_MS
        spread = policy.get("jitter_percent", _JITTER_PERCENT) / 100
        longest_ms = max(whole_ms * (1 + spread), _ASKED_S * (1 + spread) * SECOND_MS)
        earliest_ms = process.earliest_ms() + whole_ms * (1 - spread) - _ROUND_MS
        latest_ms = process.latest_ms() + longest_ms + _ROUND_MS
        if not earliest_ms <= after["retry_at_ms"] <= latest_ms:
            wait_ms = after["retry_at_ms"] - self._world.kernel.now_ms
            raise Violation("attempts", f"{process.name} has {ref} wait for {wait_ms} ms, against {policy}")

    def _check_kind(self, process: Process, ref: str, before: Item, after: Item) -> None:
        """An attempt that ended because its lease was over is recorded as what it was: one whose lease lasted as
        long as it might take has taken too long, any other was lost."""
        if before["status"] != "running" or len(after.get("attempts", ())) <= len(before.get("attempts", ())):
            return
        outcome = _last_outcome(after)
        if outcome not in ("lost", "timed_out") or before.get("handed_back", 0) == before.get("token", 0):
            return
        stop_at_ms = before.get("stop_at_ms", 0)
        is_bounded = bool(stop_at_ms) and before["lease_until_ms"] >= stop_at_ms
        is_over = bool(stop_at_ms) and process.latest_ms() >= stop_at_ms
        if (outcome == "lost" and is_bounded) or (outcome == "timed_out" and not is_over):
            raise Violation("every-end-recorded", f"{process.name} recorded an attempt of {ref} as {outcome}")


def _uncounted(run: Item) -> int:
    """Attempts of before the last replay, and those that a worker has handed back."""
    replays = run.get("replays", ())
    return int(replays[-1]["after_attempt"] if replays else 0) + int(run.get("interrupted", 0))


def _last_class(run: Item) -> str:
    attempts = run.get("attempts", ())
    return str(attempts[-1].get("error_class", "")) if attempts else ""


def _last_outcome(run: Item) -> str:
    attempts = run.get("attempts", ())
    return str(attempts[-1]["outcome"]) if attempts else ""
