"""What the production worker owes for each attempt that it holds (W3, W10 to W14), by what it was answered and by what
the job's own code sees: it begins only what is still its own, heartbeats in time, stops what is cancelled, tells each
end as it was, hands back what it does not finish, and sees to the message.

All instants are true time; a lease lasts from when it was asked for. Nothing is judged of a process that has died.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import TIMERS
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.worker.context import Context

# Written out again, not imported.
_UNDECIDED = frozenset({"busy", "contended", "unreadable", "invalid"})
_FAILED_MAX = 2
_BEAT_LATE_MS = 6_500
"""A heartbeat is due when a third of its lease has passed; the one before it may have waited five seconds for its
answer, of other attempts."""
_BEAT_MS_MIN = 500
_STOPS_MS = 3_000
"""How long a job that is told to stop may take to notice: a step of its work."""
_NOTICES_MS = 600
"""How long the end of a lease may go unnoticed: the watch's look."""
_AT_ONCE_MS = 1_000
_LAST_MS = 9_000
"""How long the last acts of a worker that stops may take: threads that are waited for, a release."""

type Attempt = tuple[str, int]


@dataclass(slots=True)
class Duty:
    """An attempt in a worker's hands. `ends`: when its lease was to end by its own reckoning, as it learned of it at
    which instants. `ended_as`: what its function came to (None: it has not ended). `is_told`: the platform has taken
    its end, or will not."""

    process: Process
    ref: str
    asked_ms: int
    arrived_ms: int
    lease_ms: int
    ends: list[tuple[int, int]] = field(default_factory=list)
    beats: int = 0
    failed: int = 0
    is_lost: bool = False
    cancelled_ms: int = 0
    runs: bool = False
    was_interrupted: bool = False
    ended_as: str | None = None
    ended_ms: int = 0
    error_class: str = ""
    released_ms: int = 0
    stops_ms: int = 0
    is_told: bool = False
    hidden_until_ms: int = 0

    @property
    def end_ms(self) -> int:
        return self.ends[-1][1]

    @property
    def is_over(self) -> bool:
        """Whether nobody expects anything of its worker any more."""
        return self.is_told or self.is_lost or self.failed >= _FAILED_MAX or self.process.state != "running"


class DutyChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._duties: dict[Attempt, Duty] = {}
        self._asked_to_stop_ms: dict[Attempt, int] = {}
        self._around: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._stopped_ms: dict[Process, int] = {}

    # --- what it was answered ---------------------------------------------------------------------------------

    def granted(self, process: Process, run: dict[str, Any], asked_ms: int) -> None:
        """A start was granted; of a lease over HTTP `asked_ms` is when it was given."""
        now_ms, attempt = self._world.kernel.now_ms, (parse_ref(run["ref"]).run_id, int(run["token"]))
        duty = self._duties[attempt] = Duty(process, run["ref"], asked_ms, now_ms, run["lease_ms"])
        self._extended(attempt, duty, asked_ms, run["lease_ms"])

    def asks_beat(self, one: dict[str, Any]) -> None:
        """A heartbeat goes out."""
        if (duty := self._duties.get((parse_ref(one["ref"]).run_id, one["token"]))) is not None:
            duty.beats += 1

    def beat(self, one: dict[str, Any], answer: dict[str, Any] | None, asked_ms: int) -> None:
        """A heartbeat was answered; None: it was not."""
        attempt = parse_ref(one["ref"]).run_id, one["token"]
        duty, now_ms = self._duties.get(attempt), self._world.kernel.now_ms
        if duty is None:
            return
        if answer is not None and (answer.get("cancel") or answer.get("reason") == "cancelled"):
            duty.cancelled_ms = duty.cancelled_ms or now_ms
        elif answer is not None and 0 < self._asked_to_stop_ms.get(attempt, 0) < asked_ms and answer.get("accepted"):
            self._fail("cancelled-stays", f"{attempt} is to be cancelled, and its heartbeat was not told")
        if answer is not None and answer.get("accepted"):
            self._extended(attempt, duty, asked_ms, answer["lease_ms"])
            return
        duty.failed += 1
        duty.is_lost |= answer is not None and str(answer.get("reason")) not in _UNDECIDED | {"cancelled"}
        self._expect_beat(attempt, duty, asked_ms, duty.end_ms - asked_ms)

    def of(self, process: Process, ref: str) -> Duty | None:
        """The newest attempt of a run that is in a process's hands."""
        mine = [
            (token, duty) for (_, token), duty in self._duties.items() if duty.process is process and duty.ref == ref
        ]
        return max(mine, key=lambda one: one[0], default=(0, None))[1]

    def _extended(self, attempt: Attempt, duty: Duty, asked_ms: int, lease_ms: int) -> None:
        duty.asked_ms, duty.arrived_ms = asked_ms, self._world.kernel.now_ms
        duty.lease_ms, duty.failed = lease_ms, 0
        duty.ends.append((duty.arrived_ms, asked_ms + lease_ms))
        self._world.checks.handling.extended(duty)
        self._expect_beat(attempt, duty, asked_ms, lease_ms)

    def _expect_beat(self, attempt: Attempt, duty: Duty, asked_ms: int, lease_ms: int) -> None:
        """The next heartbeat is asked for when a third of the lease has passed, as long as anything is owed (W3)."""
        if duty.process.kind != "real-worker":
            return
        third_ms = max(_BEAT_MS_MIN, lease_ms // 3, duty.lease_ms // 3)
        due_ms = max(asked_ms + third_ms, self._world.kernel.now_ms) + _BEAT_LATE_MS
        beats = duty.beats

        def look() -> None:
            owes = not (duty.is_over or duty.released_ms or self._world.kernel.now_ms >= duty.end_ms)
            if owes and duty.beats == beats and self._duties.get(attempt) is duty:
                self._fail("bounded-attempts", f"{duty.process.name} has let the lease of {attempt} be: no heartbeat")

        self._world.kernel.at(due_ms, look)

    def reported(self, one: dict[str, Any], answer: dict[str, Any]) -> None:
        """The report of an end was answered."""
        duty = self._duties.get((parse_ref(one["ref"]).run_id, one["token"]))
        if duty is not None and (answer.get("accepted") or answer.get("reason") not in _UNDECIDED):
            duty.is_told = True
            if answer.get("accepted") or answer.get("discard"):
                self._world.checks.handling.is_useless(duty)

    def released(self, one: dict[str, Any], answer: dict[str, Any]) -> None:
        """A run that was handed back was taken, or not."""
        duty = self._duties.get((parse_ref(one["ref"]).run_id, one["token"]))
        if duty is not None and (answer.get("accepted") or answer.get("reason") not in _UNDECIDED):
            duty.is_told = True
            if answer.get("accepted"):
                self._world.checks.handling.given_back(duty, one.get("stops_in_s", 0))

    # --- what it does -----------------------------------------------------------------------------------------

    def begins(self, process: Process, ctx: Context) -> None:
        """The job's function is called: the attempt is its worker's, and it is told of it as it is (W3, W10)."""
        attempt = ctx.run_id, ctx.token
        duty, now_ms = self._duties.get(attempt), self._world.kernel.now_ms
        if duty is None or duty.process is not process:
            self._fail("one-attempt-running", f"{process.name} began {attempt}, and was not granted it")
            return
        if duty.runs or duty.ended_as is not None:
            self._fail("one-attempt-running", f"{process.name} began {attempt} twice")
        if duty.is_over or now_ms > duty.end_ms or duty.released_ms:
            late_ms = now_ms - duty.end_ms
            self._fail("one-attempt-running", f"{process.name} began {attempt}, {late_ms} ms after its lease")
        duty.runs = True
        self._check_told(process, duty, ctx)

    def _check_told(self, process: Process, duty: Duty, ctx: Context) -> None:
        """What the job is told of itself is what the ledger and its messages say."""
        pk, _, sk = duty.ref.partition("|")
        fire_s, nominal_s = int(sk[:10]), int(sk.split("#")[3])
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk}) or {}
        numbers = {one["token"]: one["attempt"] for one in item.get("attempts", ())}
        if item.get("status") == "running":
            numbers[item["token"]] = item["attempt"]
        around = _seconds(ctx.previous_at), _seconds(ctx.next_at)
        if (_seconds(ctx.fire_at), _seconds(ctx.scheduled_at)) != (fire_s, nominal_s):
            self._fail(
                "one-definition", f"{process.name} told {duty.ref} that it is of {ctx.scheduled_at}, {ctx.fire_at}"
            )
        if numbers.get(ctx.token, ctx.attempt) != ctx.attempt:
            self._fail("one-definition", f"{process.name} told {duty.ref} that {ctx.token} is attempt {ctx.attempt}")
        if self._around[duty.ref] and around not in self._around[duty.ref]:
            self._fail("one-definition", f"{process.name} told {duty.ref} that it stands between {around}")

    def sent(self, message: dict[str, Any]) -> None:
        """A message left, which says between which others its run stands."""
        around = (_seconds_of(message.get("previous_at")), _seconds_of(message.get("next_at")))
        self._around[message["ref"]].add(around)

    def works(self, attempt: Attempt) -> None:
        """The job goes on."""
        duty, now_ms = self._duties.get(attempt), self._world.kernel.now_ms
        if duty is None:
            return
        if now_ms > duty.end_ms + _NOTICES_MS:
            self._fail("one-attempt-running", f"{attempt} goes on {now_ms - duty.end_ms} ms after what it may trust")
        if 0 < duty.cancelled_ms < now_ms - _STOPS_MS:
            self._fail(
                "cancelled-stays", f"{attempt} goes on, and was told to stop {now_ms - duty.cancelled_ms} ms ago"
            )

    def is_interrupted(self, attempt: Attempt) -> None:
        """The job is told that its process ends, and may go on."""
        if (duty := self._duties.get(attempt)) is not None:
            duty.was_interrupted = True

    def ends(self, attempt: Attempt, how: str, error_class: str = "") -> None:
        """The job's function has ended."""
        if (duty := self._duties.get(attempt)) is not None:
            duty.runs, duty.ended_as, duty.error_class = False, how, error_class
            duty.ended_ms = self._world.kernel.now_ms

    def reports(self, one: dict[str, Any]) -> None:
        """It tells how an attempt has ended: as it has (W13)."""
        attempt = parse_ref(one["ref"]).run_id, one["token"]
        duty = self._duties.get(attempt)
        if duty is None or duty.ended_as is None:
            return  # its function was never called: there is none of its name, or its payload does not fit
        outcome, is_whole = one["outcome"], one.get("error_class", "") == duty.error_class
        allowed = {duty.ended_as, "cancelled"} if duty.cancelled_ms else {duty.ended_as}
        if duty.was_interrupted and "failed" in duty.ended_as and _is_out_of_time(duty, one):
            return  # what it has raised after it was told that its time was over may come of that
        if duty.ended_as == "interrupted":
            allowed |= {"failed"} if duty.process.kind == "lambda" else set()  # it took longer than its function may
            is_whole = True
        if outcome not in allowed or (outcome != "succeeded" and outcome != "cancelled" and not is_whole):
            told = f"{outcome} {one.get('error_class', '')}"
            self._fail("every-end-recorded", f"{attempt} has {duty.ended_as} {duty.error_class}, and is told as {told}")

    def releases(self, one: dict[str, Any]) -> None:
        """It hands an attempt back: for now, if its function has ended, else for when the process is gone (W12)."""
        attempt = parse_ref(one["ref"]).run_id, one["token"]
        duty, stops_ms = self._duties.get(attempt), one.get("stops_in_s", 0) * 1_000
        if duty is None:
            return
        duty.released_ms, duty.stops_ms = self._world.kernel.now_ms, stops_ms
        if duty.runs and not stops_ms:
            self._fail("one-attempt-running", f"{duty.process.name} hands {attempt} back for now, and it still runs")

    def stops(self, process: Process) -> None:
        """A worker was told to stop."""
        self._stopped_ms.setdefault(process, self._world.kernel.now_ms)

    def is_over(self, process: Process) -> None:
        """It has ended: what it held was finished, told or handed back, or its lease is over (W12, W13)."""
        now_ms, stopped_ms = self._world.kernel.now_ms, self._stopped_ms.get(process)
        for attempt, duty in self._duties.items():
            if duty.process is not process or duty.is_over or stopped_ms is None:
                continue
            if duty.ended_ms > now_ms - _LAST_MS:
                continue  # when all the waiting was over
            known = [end_ms for learned_ms, end_ms in duty.ends if learned_ms <= stopped_ms]
            end_ms = known[-1] if known else duty.ends[0][1]  # its wait was set by what it knew of the lease
            may_leave = duty.released_ms if duty.ended_as is None else now_ms >= min(end_ms, duty.end_ms) - _AT_ONCE_MS
            if not may_leave and now_ms < duty.end_ms - _AT_ONCE_MS:
                what = f"{process.name} has ended, and {attempt} ({duty.ended_as}) was neither told nor handed back"
                self._fail("bounded-attempts", what)

    # --- what becomes of the message --------------------------------------------------------------------------

    def item_changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Somebody asks for an attempt's end."""
        if after is not None and after.get("cancel_requested") and not (before or {}).get("cancel_requested"):
            run_id = parse_ref(f"{after['pk']}|{after['sk']}").run_id
            self._asked_to_stop_ms.setdefault((run_id, after["token"]), self._world.kernel.now_ms)

    def _fail(self, invariant: str, what: str) -> None:
        self._world.fail(Violation(invariant, what))


def _is_out_of_time(duty: Duty, one: dict[str, Any]) -> bool:
    """Whether a function reports that a job took longer than it may."""
    return duty.process.kind == "lambda" and (one["outcome"], one.get("error_class")) == ("failed", "FunctionTimeout")


def _seconds(at: datetime | None) -> int:
    return int(at.timestamp()) if at else 0


def _seconds_of(text: str | None) -> int:
    return _seconds(datetime.fromisoformat(text) if text else None)
