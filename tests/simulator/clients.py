"""Callers of the API: they create, cancel and delete, and repeat what was not answered.

A client that gets no answer in time tries again, while its first request may still be on its way; the world judges
by what clients were told (`checks.ledger.accepted`, `.cancelled`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulator.checks.told import Ask
from tickwork.core.errors import CallerError, Throttled, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule import next_after, parse_schedule, schedule_from_spec
from tickwork.flows.jobs import changing, registering, skipping
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import asking, cancelling, dead_letters, timers
from tickwork.flows.runs.asking import Wanted
from tickwork.flows.runs.dead_letters import Order
from tickwork.flows.runs.timers import NewTimer
from tickwork.testing.process import FAILED, Process

if TYPE_CHECKING:
    from tests.simulator.shape import ChangePlan, JobPlan, PausePlan, RunPlan, SkipPlan, TimerPlan
    from tests.simulator.world import World

_PATIENCE_MS = 12 * SECOND_MS
_TRIES_MAX = 4
_LONG_PAYLOAD = f'{{"n":1,"by_hand":"{"x" * 500}"}}'
"""It is kept apart."""
_PAUSE_ENDS_MS = 5 * SECOND_MS
"""A pause that ends on a multiple of this ends just when most schedules are due."""


def request(world: World, call: Callable[[Process], None], *, again: bool, ask: Ask | None = None) -> None:
    """One client: a call, and the same call again when no answer came in time."""
    answered = [False]
    earlier: list[Process] = []

    def body(process: Process) -> None:
        earlier.append(process)
        try:
            call(process)
        except WorldError as error:
            process.state = FAILED
            world.seen[f"busy {type(error).__name__}"] += 1
            return
        except Unreadable:  # its own definition: nobody else is asked
            process.state = FAILED
            world.seen["told it is unreadable"] += 1
            return
        except CallerError as error:
            world.seen[f"told {type(error).__name__}"] += 1
            earlier.clear()  # it is told what stands in its way, and nothing of its earlier tries
        answered[0] = True
        world.checks.answered(process)
        world.checks.cursors.answered_for(process, earlier)

    def attempt(tries: int) -> None:
        if answered[0] or tries > _TRIES_MAX:
            return
        if ask is not None:
            ask.tries = tries
        Process(world, "api", body)
        if again:
            world.kernel.at(world.kernel.now_ms + _PATIENCE_MS, lambda: attempt(tries + 1))

    attempt(1)


def _ask(world: World, asks: list[Ask]) -> Ask:
    """Note that something is asked for now."""
    ask = Ask(world.kernel.now_ms)
    asks.append(ask)
    return ask


def _acknowledge(world: World, ask: Ask) -> None:
    ask.acked_ms = min(ask.acked_ms, world.kernel.now_ms)


def create_timers(world: World, plan: TimerPlan, told: list[str] | None = None) -> None:
    """Create some one-shots, and remember (in `told` too) that the client was told so."""

    def call(process: Process) -> None:
        # A request of several gives each its own key, as the bulk call demands.
        new = [
            NewTimer(
                plan.team,
                plan.fire_at_ms + n * plan.apart_s * SECOND_MS,
                plan.work,
                f"{plan.client_key}-{n}" if plan.client_key else None,
                f"content-{n}",
                group=plan.group,
            )
            for n in range(plan.count)
        ]
        created = timers.create_timers(process.ports, new)
        world.seen["timer created" if created[0].is_new else "timer existed"] += 1
        for one in created:
            world.checks.ledger.accepted[one.run.key.ref] = world.kernel.now_ms
            world.checks.groups.told_created(process, one.run)
            if told is not None:
                told.append(one.run.key.ref)
        if plan.cancel_after_ms is not None:
            timer_id = created[0].run.key.job_id
            world.kernel.at(world.kernel.now_ms + plan.cancel_after_ms, lambda: cancel_timer(world, timer_id))

    request(world, call, again=plan.client_key is not None)


def cancel_timer(world: World, timer_id: str) -> None:
    def call(process: Process) -> None:
        run = timers.cancel_timer(process.ports, timer_id)
        world.seen["timer cancelled"] += 1
        world.checks.ledger.told_cancelled(process, run.key.ref)

    request(world, call, again=True)


def create_job(world: World, plan: JobPlan, fingerprint: str = "same") -> None:
    ask = _ask(world, world.checks.told.creations[f"{plan.team}:{plan.name}"])
    work = _saying(plan.work, "deletions", len(world.checks.told.deletions[f"{plan.team}:{plan.name}"]))

    def call(process: Process) -> None:
        schedule = parse_schedule(plan.schedule, now_ms=process.now_ms(), job_id=f"{plan.team}:{plan.name}").spec
        new = NewJob(plan.team, plan.name, schedule, work, plan.tolerance_s, plan.catch_up, fingerprint)
        new = replace(new, overlap=plan.overlap, buffer_max=plan.buffer_max, buffer_age_s=plan.buffer_age_s)
        _, is_new = changing.create_or_rejoin(process.ports, replace(new, group=plan.group))
        _acknowledge(world, ask)
        world.seen["job created" if is_new else "job existed"] += 1

    request(world, call, again=True, ask=ask)


def _saying(work: Work, name: str, number: int) -> Work:
    """The work with a payload of its own, so that a run which is given another's is found; 0: as it is."""
    if not number or work.payload is None:
        return work
    return replace(work, payload=work.payload.replace("{", f'{{"{name}":{number},', 1))


def change_job(world: World, plan: JobPlan, change: ChangePlan) -> None:
    """Change a job at the version it has when the client looks; a repeated request names the same version."""
    job_id = f"{plan.team}:{plan.name}"
    versions: list[int] = []
    ask = _ask(world, world.checks.told.changes[job_id])

    def call(process: Process) -> None:
        if not versions:
            versions.append(registering.get_job(process.ports, job_id).version)
        schedule = parse_schedule(change.schedule, now_ms=process.now_ms(), job_id=job_id).spec
        work = replace(plan.work, max_duration_s=3_600) if change.limited else plan.work
        if change.resources is not None:
            work = replace(work, resources=change.resources)
        work = _saying(work, "change", change.at_ms)
        what, overlap = f"change of {change.at_ms}", change.overlap or plan.overlap
        new = NewJob(plan.team, plan.name, schedule, work, change.tolerance_s, plan.catch_up, what, overlap=overlap)
        new = replace(new, buffer_max=plan.buffer_max, buffer_age_s=plan.buffer_age_s, group=plan.group)
        changing.update_job(process.ports, job_id, versions[0], lambda _: new)
        _acknowledge(world, ask)
        world.seen["job changed"] += 1

    request(world, call, again=True, ask=ask)


def pause_job(world: World, job_id: str, pause: PausePlan) -> None:
    until_ms = world.kernel.now_ms + pause.ends_after_ms if pause.ends_after_ms else 0
    until_ms += -until_ms % _PAUSE_ENDS_MS if pause.ends_on_the_dot else 0
    ask = _ask(world, world.checks.told.pauses[job_id])
    ask.until_ms = until_ms or ask.until_ms

    def call(process: Process) -> None:
        changing.pause_job(process.ports, job_id, "ops", "maintenance", until_ms)
        _acknowledge(world, ask)
        world.seen["job paused"] += 1

    request(world, call, again=True, ask=ask)


def resume_job(world: World, job_id: str) -> None:
    ask = _ask(world, world.checks.told.resumes[job_id])

    def call(process: Process) -> None:
        _, was_paused = changing.resume_job(process.ports, job_id, "ops")
        _acknowledge(world, ask)
        world.seen["job resumed" if was_paused else "job was not paused"] += 1

    request(world, call, again=True, ask=ask)


def delete_job(world: World, job_id: str) -> None:
    ask = _ask(world, world.checks.told.deletions[job_id])

    def call(process: Process) -> None:
        deleted = registering.delete_job(process.ports, job_id)
        _acknowledge(world, ask)
        world.seen["job deleted" if deleted else "job deleted before"] += 1

    request(world, call, again=True, ask=ask)


def skip_one(world: World, job_id: str, plan: SkipPlan) -> None:
    """Skip an occurrence that the job has to come, as the client sees it now; later perhaps take that back."""
    at_ms = _coming(world, job_id, plan.number)
    if at_ms is None:
        return
    ask = _ask(world, world.checks.told.skips[job_id, at_ms])

    def call(process: Process) -> None:
        skipping.skip_occurrence(process.ports, job_id, at_ms, "ann", "closed")
        _acknowledge(world, ask)
        world.seen["occurrence skipped"] += 1

    request(world, call, again=True, ask=ask)
    if plan.undo_at_ms:
        world.kernel.at(plan.undo_at_ms, lambda: unskip_one(world, job_id, at_ms))


def unskip_one(world: World, job_id: str, at_ms: int) -> None:
    ask = _ask(world, world.checks.told.unskips[job_id, at_ms])

    def call(process: Process) -> None:
        _, was_skipped = skipping.unskip_occurrence(process.ports, job_id, at_ms, "ann")
        _acknowledge(world, ask)
        world.seen["skip taken back" if was_skipped else "was not skipped"] += 1

    request(world, call, again=True, ask=ask)


def _coming(world: World, job_id: str, number: int) -> int | None:
    """A nominal instant among those that a job has to come."""
    job = world.tables.standing(JOBS, {"job_id": job_id})
    if job is None or not job["next_scheduled_at_ms"] or job_id in world.garbled or job_id in world.poisoned:
        return None
    at_ms: int | None = job["next_scheduled_at_ms"]
    schedule = schedule_from_spec(job["schedule"])
    for _ in range(number if schedule.exclusion is None else 0):
        at_ms = next_after(schedule, at_ms) if at_ms is not None else None
    return at_ms


def run_by_hand(world: World, job_id: str, plan: RunPlan, client_key: str) -> None:
    """Run a job now, and repeat that while nobody answers."""

    def own(work: Work) -> Work:
        return replace(work, payload=_LONG_PAYLOAD, payload_id=None) if plan.own_payload else work

    wanted = Wanted(job_id, "ops", "it came late", own, plan.beside, client_key, "same")

    def call(process: Process) -> None:
        asked = asking.asked_before(process.ports, wanted) or asking.ask_for_run(process.ports, wanted)
        world.checks.ledger.accepted.setdefault(asked.key.ref, world.kernel.now_ms)
        world.seen["run asked for" if asked.is_new else "run asked for before"] += 1

    request(world, call, again=True)


def cancel_run(world: World) -> None:
    """Somebody cancels some run of a job, wherever it stands."""
    items = [item for item in world.tables.items(TIMERS) if "job_id" in item and _ref(item) not in world.poisoned]
    if not items:
        return
    chosen = world.rng.choice(sorted(items, key=lambda item: (item["pk"], item["sk"]))[-6:])
    cancel_one(world, parse_ledger_key(chosen["pk"], chosen["sk"]))


def cancel_one(world: World, key: LedgerKey) -> None:
    """Cancel a run, and repeat it while nobody answers."""

    def call(process: Process) -> None:
        cancelled = cancelling.cancel_run(process.ports, key, "not today")
        world.seen[f"run cancelled {'on request' if cancelled.requested else 'at once'}"] += 1
        if cancelled.status == lifecycle.CANCELLED:
            world.checks.ledger.told_cancelled(process, key.ref)

    request(world, call, again=True)


def _ref(item: Item) -> str:
    return f"{item['pk']}|{item['sk']}"


def replay_dead(world: World) -> None:
    """Somebody replays what is dead."""
    items = [item for item in world.tables.items(TIMERS) if item.get("status") == lifecycle.DEAD]
    keys = sorted((parse_ledger_key(item["pk"], item["sk"]) for item in items), key=lambda key: key.ref)

    def call(process: Process) -> None:
        order = Order("ops", "it is mended", 1, process.now_ms())
        outcomes = dead_letters.replay_runs(process.ports, keys, order)
        for replayed in outcomes:
            world.seen[f"replay {replayed.refusal or 'ordered'}"] += 1
        if any(replayed.refusal == dead_letters.BUSY for replayed in outcomes):
            raise Throttled("some of them")  # he asks again, as he was told to

    if keys:
        request(world, call, again=True)
