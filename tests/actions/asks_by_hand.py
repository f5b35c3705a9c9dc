"""Requests about what a job's schedule has not asked for: one occurrence left out, a run by hand, a backfill."""

from __future__ import annotations

from tests.actions.asks import Ask
from tests.actions.model import MARGIN_MS, Job, Promises, hold
from tests.actions.world import Answer, Body
from tickwork.core.instants import SECOND_MS, iso, parse_iso

WHY = "the bank is closed"
"""Why one is left out: in everybody's words, so that who repeats is told the same."""


def skip_one(job: Job, at_ms: int) -> Ask:
    """An occurrence that the last preview has shown."""
    body: Body = {"scheduled_at": iso(at_ms), "by": "ann", "reason": WHY}
    drawn = job.epoch

    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id}: {answer} to {body}"
        if job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        elif answer.is_ok:
            job.skip(at_ms)
            job.version = answer.body["version"]
        else:
            may_refuse = at_ms <= now_ms + MARGIN_MS or job.definition.ends or job.epoch != drawn or job.skips
            hold(may_refuse, "a-skip-is-granted", what)

    def effect(_: int) -> None:
        job.version = None
        job.skip(at_ms)

    return Ask("POST", f"/jobs/{job.id}/skip", body, job, (), judge, effect)


def unskip_one(job: Job, at_ms: int) -> Ask:
    body: Body = {"scheduled_at": iso(at_ms), "by": "ann"}

    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id}: {answer} to {body}"
        if job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        elif answer.is_ok:
            hold(answer.body["changed"] or at_ms not in job.skips, "a-skip-is-taken-back", what)
            job.unskip(at_ms)
            job.version = answer.body["version"]
        else:
            hold(at_ms <= now_ms + MARGIN_MS, "a-skip-is-taken-back", what)

    def effect(_: int) -> None:
        job.version = None
        job.unskip(at_ms)

    def has_passed() -> bool:
        return at_ms <= ask.sent_ms + MARGIN_MS

    ask = Ask("POST", f"/jobs/{job.id}/unskip", body, job, (), judge, effect)
    ask.is_overtaken = has_passed
    return ask


def run_now(promises: Promises, job: Job, client_key: str, live: list[str]) -> Ask:
    """`live`: the runs of the job that had not ended when it was drawn."""
    body: Body = {"by": "ann", "reason": "a file came late", "client_key": client_key}
    given: list[str] = []

    def judge(answer: Answer, _: int) -> None:
        what = f"{job.id}: {answer} to {body}, live were {live}"
        if answer.is_ok:
            hold(given in ([], [answer.body["run_id"]]), "a-repeat-has-the-first-answer", what)
            given[:] = [answer.body["run_id"]]
            promises.note("run_now")
        elif job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        else:
            hold(answer.status == 409 and answer.body["type"].endswith("held"), "a-run-by-hand-is-granted", what)

    path = f"/jobs/{job.id}/run"
    return Ask("POST", path, body, None, ("run_id", "ref"), judge, is_always_judged=True)


def backfill(promises: Promises, job: Job, since_ms: int, until_ms: int, more: Body) -> Ask:
    body: Body = {"since": iso(since_ms), "until": iso(until_ms), "reason": "a bug", **more}

    def judge(answer: Answer, _: int) -> None:
        what = f"{job.id}: {answer} to {body}"
        if answer.is_ok:
            promises.backfills.setdefault(answer.body["backfill_id"], answer.body["matched"])
            promises.note("backfill")
        elif job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        else:
            hold(answer.status in (409, 422, 429), "a-backfill-is-made", what)

    path = f"/jobs/{job.id}/backfills"
    return Ask("POST", path, body, None, ("backfill_id", "matched"), judge, is_always_judged=True)


def set_backfill(promises: Promises, backfill_id: str, what: str) -> Ask:
    """Pause, resume or cancel one."""
    bodies: dict[str, Body] = {
        "pause": {"reason": "lunch"},
        "resume": {},
        "cancel": {"reason": "enough", "runs": "leave"},
    }

    def judge(answer: Answer, now_ms: int) -> None:
        shown = f"{what} {backfill_id}: {answer}"
        hold(answer.is_ok or answer.status == 409, "a-backfill-is-set", shown)
        if answer.is_ok and what == "cancel":
            promises.ended_backfills.add(backfill_id)
            promises.note("cancelled_backfill")

    return Ask("POST", f"/backfills/{backfill_id}/{what}", bodies[what], None, (), judge)


def coming(rows: list[Body], now_ms: int) -> list[int]:
    """Of a preview: the instants that may be left out."""
    found = [parse_iso(row["scheduled_at"]) for row in rows if not row["note"]]
    return [at_ms for at_ms in found if at_ms > now_ms + SECOND_MS]
