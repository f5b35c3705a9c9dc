"""Requests about timers and about runs: creating, cancelling, replaying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.actions.asks import Ask
from tests.actions.model import TEAM, Definition, Promises, hold
from tests.actions.world import Answer, Body
from tickwork.core.instants import iso, parse_iso

# --- timers ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class WantedTimer:
    """A timer under a client key."""

    client_key: str
    definition: Definition
    when: Body
    timer_id: str = ""

    @property
    def body(self) -> Body:
        return self.definition.parts() | self.when | {"team": TEAM, "client_key": self.client_key}


def create_timers(promises: Promises, wanted: list[WantedTimer]) -> Ask:
    """Timers under keys that nobody else uses, one alone or some as a batch."""

    def told(answer: Answer, now_ms: int) -> None:
        if not answer.is_ok:  # a batch of which nothing is there is refused like a single request
            have_passed = all(_may_have_passed(one, now_ms) for one in wanted)
            hold(have_passed, "each-entry-has-its-fate", f"{answer} to {[one.body for one in wanted]}")
            return
        entries = answer.body["timers"] if len(wanted) > 1 else [answer.body]
        hold(len(entries) == len(wanted), "each-entry-has-its-fate", answer)
        for one, entry in zip(wanted, entries, strict=True):
            if "timer_id" not in entry:
                hold(_may_have_passed(one, now_ms), "a-timer-is-created", f"{entry} to {one.body}")
                continue
            hold(one.timer_id in ("", entry["timer_id"]), "a-repeat-has-the-first-answer", f"{one} {entry}")
            one.timer_id = entry["timer_id"]
            promises.timers[one.timer_id] = one.definition

    if len(wanted) == 1:
        alone = ("timer_id", "run_id", "fire_at")
        return Ask("POST", "/timers", wanted[0].body, None, alone, told, is_always_judged=True)
    body = {"timers": [one.body for one in wanted]}
    same = ("timers.timer_id", "timers.fire_at")
    return Ask("POST", "/timers:batch", body, None, same, told, is_always_judged=True)


def _may_have_passed(one: WantedTimer, now_ms: int) -> bool:
    """Whether its time has passed before anybody was told of it."""
    return not one.timer_id and "at" in one.when and parse_iso(one.when["at"]) <= now_ms


# --- runs -----------------------------------------------------------------------------------------------------


def cancel_run(promises: Promises, run: Body, named: Body, look: Callable[[], object]) -> Ask:
    """Cancel a run, as it stands when `look` has read it."""

    job = promises.job_of(run["job_id"])

    def judge(answer: Answer, now_ms: int) -> None:
        (entry,) = answer.body["runs"]
        what = f"{run['job_id']} {run['scheduled_at']} was {run['status']}: {entry}"
        if entry["accepted"]:
            hold(run["status"] not in ("succeeded", "dead", "skipped", "expired"), "what-has-ended-stays", what)
            promises.cancelled(entry["run_id"], run["job_id"], f"at {iso(now_ms)} when it was {run['status']}")
            if run["status"] == "cancelled" and job is not None:
                job.version = None  # what a change gave up may have to be noted, which is a change
        else:
            look()  # a window may have skipped it in the midst of the request
            is_live = run["status"] in ("pending", "queued", "running", "waiting")
            hold(not is_live, "a-cancellation-is-granted", what)

    def effect(now_ms: int) -> None:
        promises.cancelled(run["run_id"], run["job_id"], f"at {iso(now_ms)}, unanswered")
        if run["status"] == "cancelled" and job is not None:
            job.version = None

    def granted(answer: Answer) -> bool:
        return bool(answer.body["runs"][0]["accepted"])

    def overtaken() -> bool:
        return run["status"] in ("succeeded", "dead")

    same = ("runs.accepted", "runs.run_id")
    return Ask("POST", "/runs:cancel", {"runs": [named]}, job, same, judge, effect, granted, overtaken, look)


def replay(promises: Promises, run: Body, look: Callable[[], object]) -> Ask:
    body = {"team": TEAM, "runs": [run["ref"]], "by": "ann", "reason": "mended"}

    def judge(answer: Answer, _: int) -> None:
        (entry,) = answer.body["runs"]
        what = f"{run['job_id']} {run['scheduled_at']} was {run['status']}: {entry}"
        is_dead = run["status"] == "dead"
        done_before = bool(run.get("replays")) and entry["replayed"]
        if is_dead and entry.get("reason") == "held":  # of a job whose runs do not overlap, while another one goes on
            by = entry["held_by"]
            hold(by != f"{run['job_id']}@{run['scheduled_at']}", "the-dead-are-replayed", what)
            hold(by.startswith(f"{run['job_id']}@"), "the-dead-are-replayed", what)
            return
        hold(entry["replayed"] == is_dead or done_before, "the-dead-are-replayed", what)
        if is_dead:
            promises.replayed(run["run_id"])

    def effect(_: int) -> None:
        promises.replayed(run["run_id"])

    return Ask("POST", "/dead-letters:replay", body, None, (), judge, effect, look=look)
