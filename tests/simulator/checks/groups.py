"""Checks of cancelled groups: nothing of one starts after its cancellation was acknowledged, and nothing that was made
after that, or bears another label, is touched. Judged by what callers were told, and by when what was written.

That what was not cancelled is not lost is the ledger's to check: `is_gone` excuses nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulator.checks.told import Ask
from tickwork.core.ledger.epochs import Label
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_ITS_GROUP = "its group "
"""How the reason of an end begins that came with a group."""
_YEAR_S = 365 * 86_400
_UNSTARTED = frozenset({"pending", "waiting", "buffered"})


@dataclass(frozen=True, slots=True)
class _Born:
    """When something came to bear its label: who made it began then, and has written it then, with this epoch."""

    began_ms: int
    put_ms: int
    epoch: int


class GroupChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._cancels: dict[Label, list[Ask]] = defaultdict(list)
        self._epochs: dict[int, int] = {}
        self._born: dict[str, _Born] = {}
        self._jobs: dict[str, _Born] = {}

    # --- what is asked for --------------------------------------------------------------------------------------

    def asked_to_cancel(self, label: Label) -> Ask:
        ask = Ask(self._world.kernel.now_ms)
        self._cancels[label].append(ask)
        return ask

    def told_cancelled(self, ask: Ask, epoch: int) -> None:
        """It was answered: with which epoch."""
        if ask.is_acked:
            return
        ask.acked_ms, self._epochs[id(ask)] = self._world.kernel.now_ms, epoch

    def told_created(self, process: Process, run: Run) -> None:
        """A creation is answered. Of what a cancellation has ended that was answered before it was written, or before
        it was asked for once more, the answer says so."""
        born = self._born.get(run.key.ref)
        if born is None:
            return
        self._world.seen["told that its group was cancelled"] += run.status == "cancelled"
        since_ms = max(born.put_ms, process.began_true_ms)
        for ask in self._cancels[Label(run.key.team, run.group)] if run.status in _UNSTARTED else ():
            if ask.acked_ms < since_ms and born.epoch < self._epochs[id(ask)]:
                self._fail(f"{run.key.ref} was cancelled with its group, and whoever made it was told {run.status}")

    # --- what is written ----------------------------------------------------------------------------------------

    def item_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None or "group" not in after:
            return
        ref = f"{after['pk']}|{after['sk']}"
        if after["status"] == "pending" and _is_made(before, after):
            made = self._jobs.get(after.get("job_id", ""), _Born(process.began_true_ms, 0, 0))
            self._born[ref] = _Born(made.began_ms, self._world.kernel.now_ms, after.get("epoch", 0))
        if after["status"] == "cancelled" and str(after.get("reason")).startswith(_ITS_GROUP):
            self._world.seen["run ended with its group"] += before is None or before["status"] != "cancelled"
            self._check_touched(ref, after)
        is_timer = "job_id" not in after
        if is_timer and after["status"] not in _ENDED and not _lives_on(after, self._world.layout.retention_s):
            self._fail(f"{process.name}: {ref} bears a label, and lives until {after.get('expires_at_s')}")

    def job_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """A job is made, or made part of its group anew: whoever does that, and when."""
        if after is None or "group" not in after:
            return
        if before is None or _placed(before) != _placed(after) or before["status"] in ("deleted", "cancelled"):
            self._jobs[after["job_id"]] = _Born(process.began_true_ms, self._world.kernel.now_ms, after.get("epoch", 0))
        elif before["next_scheduled_at_ms"] != after["next_scheduled_at_ms"] and after["status"] == "active":
            self._check_goes_on(process, after)
        if after["status"] == "cancelled" and before is not None and before["status"] != "cancelled":
            self._world.seen["job ended with its group"] += 1
            self._check_asked(Label(after["team"], after["group"]), self._jobs[after["job_id"]], after["job_id"])

    def _check_goes_on(self, process: Process, job: Item) -> None:
        """A step by a window that began after the answer: it puts no next occurrence of a job that was cancelled."""
        if process.kind != "scanner":
            return
        born = self._jobs[job["job_id"]]
        for ask in self._cancels[Label(job["team"], job["group"])]:
            if born.put_ms < ask.asked_ms and ask.acked_ms < process.began_true_ms and not process.met_failure:
                self._fail(f"{process.name} goes on with {job['job_id']}, which was cancelled with its group")

    def _check_touched(self, ref: str, item: Item) -> None:
        label, born = Label(_team_of(item), item["group"]), self._born.get(ref)
        if born is not None:
            self._check_asked(label, born, ref)

    def _check_asked(self, label: Label, born: _Born, what: str) -> None:
        """Only a cancellation can have ended it that was not answered before whoever made it began."""
        if not any(ask.acked_ms >= born.began_ms for ask in self._cancels[label]):
            self._fail(f"{what} was cancelled with its group, and made after that was cancelled")

    # --- what starts --------------------------------------------------------------------------------------------

    def granted(self, process: Process, ref: str, token: int, asked_ms: int) -> None:
        """A start that was asked for then is answered with a grant of this attempt. It looked behind its own write, or
        behind the question where it was asked for again; what others have started since is judged by their answers."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        born = self._born.get(ref)
        if item is None or born is None:
            return
        started_ms = max(self._world.checks.ledger.begun_ms[ref, token], asked_ms)
        for ask in self._cancels[Label(_team_of(item), item["group"])]:
            if born.put_ms < ask.asked_ms and ask.acked_ms < started_ms:
                self._fail(f"{process.name} started {ref}, whose group was cancelled")
        self._world.seen["started in a group"] += 1

    # --- what is excused ----------------------------------------------------------------------------------------

    def may_be_cancelled(self, job: Item) -> bool:
        """Whether somebody has asked to cancel the group of a job."""
        return "group" in job and bool(self._cancels[Label(job["team"], job["group"])])

    def is_gone(self, ref: str) -> bool:
        """Whether an item is a timer that was cancelled with its group, which nobody writes to it."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        if item is None or "group" not in item or "job_id" in item or item["status"] not in _UNSTARTED:
            return False
        label = Label(_team_of(item), item["group"])
        key = {"cell": f"@group#{label.text}", "team": label.text}
        group = self._world.tables.standing(TEAMS, key)
        if group is None or item.get("epoch", 0) >= group["epoch"]:
            return False
        self._check_touched(ref, item)
        self._world.seen["timer gone with its group"] += 1
        return True

    def _fail(self, what: str) -> None:
        raise Violation("cancelled-group", what)


_ENDED = frozenset({"succeeded", "dead", "skipped", "cancelled", "expired", "spent"})


def _is_made(before: Item | None, after: Item) -> bool:
    """Whether a write has made it what bears its label: it was not there, or is part of another epoch."""
    return before is None or before["status"] == "cancelled" or _placed(before) != _placed(after)


def _placed(item: Item) -> tuple[object, object]:
    return item.get("group"), item.get("epoch", 0)


def _lives_on(item: Item, retention_s: int) -> bool:
    """Whether its time to live is so far ahead that nobody misses it, or was taken away by a replay."""
    expires_at_s = item.get("expires_at_s")
    return (expires_at_s is None and "replays" in item) or (
        expires_at_s is not None and expires_at_s >= int(item["sk"][:10]) + retention_s + _YEAR_S
    )


def _team_of(item: Item) -> str:
    return str(item["sk"]).split("#")[1]
