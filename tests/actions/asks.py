"""Requests of clients, and what each answer of theirs may be.

An `Ask` knows what it wants to do to the model, which answers are right for it as things stand, and what its repeat has
in common with the first answer. Refuses to know when it is sent, or whether its answer comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.actions.model import TEAM, Definition, Job, hold
from tests.actions.world import Answer, Body
from tickwork.core.instants import iso


@dataclass(slots=True)
class Ask:
    method: str
    path: str
    body: Body | None
    job: Job | None = None
    """Whose promises it changes."""
    same: tuple[str, ...] = ()
    """What a repeat's answer has in common with the first."""
    judge: Callable[[Answer, int], None] = lambda _, __: None
    """Of an answer to it as things stand, and an instant: the right one? Then what it promises holds from now on."""
    effect: Callable[[int], None] = lambda _: None
    """Of an answer that was lost: it has taken effect."""
    granted: Callable[[Answer], bool] = lambda answer: answer.is_ok
    is_overtaken: Callable[[], bool] = lambda: False
    """What it is about has ended otherwise, as the first answer did not rule out."""
    look: Callable[[], object] = lambda: None
    """Just before it is sent: at what it is about."""
    is_always_judged: bool = False
    """Its right answer is the same for ever."""
    # --- what became of it
    first: Answer | None = None
    has_effect: bool = False
    epoch: int = -1
    sent_ms: int = 0
    tries: int = 0

    @property
    def epoch_now(self) -> int:
        return self.job.epoch if self.job is not None else 0

    def is_untouched(self) -> bool:
        """It has taken effect, and nobody has done anything to its job since."""
        if self.job is None:
            return self.has_effect and self.is_always_judged
        return self.has_effect and self.job.epoch == self.epoch and not self.is_overtaken()

    def repeated(self, answer: Answer) -> None:
        """The answer to a repeat of what has taken effect, and was not touched since."""
        what = f"{self.method} {self.path} {self.body}, {self.tries} times: {answer}, first {self.first}"
        hold(answer.is_ok, "a-repeat-is-granted", what)
        if self.first is not None:
            both = [{name: _part(one.body, name) for name in self.same} for one in (self.first, answer)]
            hold(both[0] == both[1], "a-repeat-has-the-first-answer", f"{both}: {what}")


def _part(body: Any, name: str) -> Any:
    """A part of an answer; of a batch, that of each entry."""
    if "." in name:
        outer, _, inner = name.partition(".")
        return [one.get(inner) for one in body[outer]]
    return body.get(name)


def respelled(body: Body, rng: Random) -> bytes:
    """The same request in other letters: keys in another order, `+00:00` for `Z`."""
    return json.dumps(_shuffled(body, rng)).encode()


def _shuffled(value: Any, rng: Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: _shuffled(value[name], rng) for name in names}
    if isinstance(value, list):
        return [_shuffled(one, rng) for one in value]
    if isinstance(value, str) and len(value) == 20 and value.endswith("Z") and value[10] == "T":
        return f"{value[:-1]}+00:00"
    return value


# --- jobs -----------------------------------------------------------------------------------------------------


def create_job(job: Job, definition: Definition) -> Ask:
    body = definition.parts() | {"team": TEAM, "name": job.name}

    def judge(answer: Answer, now_ms: int) -> None:
        standing, what = job.definition, f"{job.id}: {answer} to {body}"
        if standing is None:
            if answer.status == 422 and definition.ends:
                return
            hold(answer.status == 201, "a-job-is-created", what)
            job.becomes(definition, now_ms, answer.body["version"])
        elif standing == definition:
            hold(answer.status == 200, "the-same-again-is-granted", what)
        else:
            refused = (409, 422) if definition.ends else (409,)
            hold(answer.status in refused, "other-content-is-refused", what)

    def effect(now_ms: int) -> None:
        job.becomes(definition, now_ms, None)

    return Ask("POST", "/jobs", body, job, ("job_id", "version"), judge, effect)


LONG = 400
"""A payload of so many bytes is kept apart, and an answer does not show it."""


def shows(shown: Body, definition: Definition) -> bool:
    """Whether an answer shows this definition."""
    payload = len(definition.text) >= LONG or shown.get("payload") == definition.payload
    policy = shown["retry_policy"]["max_attempts"] == definition.max_attempts
    return payload and policy and shown["target"]["handler"] == definition.handler


def _differing(base: Definition, new: Definition) -> Body:
    """What a change has to say; when nothing differs, something that says the same."""
    old, parts = base.parts(), new.parts()
    given = {name: value for name, value in parts.items() if old.get(name) != value}
    if base.max_lateness_s and not new.max_lateness_s:
        given["catch_up"] = {"max_lateness_s": None}
    if "schedule" in given:  # a tolerance that is its schedule's default follows the schedule
        given["tolerance_s"] = 0
    return given or {"payload": base.payload}


def change_job(job: Job, version: int, base: Definition, new: Definition) -> Ask:
    """A change of what differs, made of the version that was read."""
    given = _differing(base, new)
    body = given | {"version": version}

    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id} at {job.version}: {answer} to {body}"
        if job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        elif job.definition == new:  # it says what stands: made before, or nothing new
            hold(answer.is_ok or job.version != version, "a-repeat-is-granted", what)
            if answer.is_ok:
                is_restored = new.mark in job.lost
                hold(is_restored or job.version in (None, answer.body["version"]), "a-version-is-a-change", what)
                job.epoch += job.version != answer.body["version"]
                job.version = answer.body["version"]
        elif job.version not in (None, version):
            hold(answer.status == 412, "two-changes-do-not-overwrite", what)
        elif answer.status == 412:
            hold(job.version is None, "a-change-is-granted", what)
        elif answer.is_ok:
            hold(shows(answer.body, new), "a-change-is-shown", what)
            hold(answer.body["version"] == version + 1, "a-version-is-a-change", what)
            job.becomes(new, now_ms, version + 1)
        else:
            hold(answer.status in (409, 422) and (base.ends or new.ends), "a-change-is-granted", what)

    def effect(now_ms: int) -> None:
        if new.mark in job.lost:
            job.version, job.epoch = None, job.epoch + 1
        elif new != base:
            job.becomes(new, now_ms, version + 1)

    return Ask("PATCH", f"/jobs/{job.id}", body, job, ("version", "schedule", "target", "lease_s"), judge, effect)


def merged(drawn: Definition, base: Definition, kept: list[str]) -> Definition:
    """A definition that keeps these of another."""
    return replace(drawn, **{name: getattr(base, name) for name in kept})


def delete_job(job: Job) -> Ask:
    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id}: {answer}"
        if not job.is_known:
            hold(answer.status == 404, "what-never-was-is-not-found", what)
            return
        hold(answer.status == 200, "a-deletion-is-granted", what)
        hold(answer.body["changed"] == (job.definition is not None), "a-deletion-says-what-it-did", what)
        if job.definition is not None:
            job.becomes(None, now_ms, None)

    return Ask(
        "DELETE",
        f"/jobs/{job.id}",
        None,
        job,
        ("job_id", "deleted"),
        judge,
        lambda now_ms: job.becomes(None, now_ms, None),
    )


def pause_job(job: Job, by: str, until_ms: int) -> Ask:
    body: Body = {"by": by, "reason": "stocktaking"} | ({"until": iso(until_ms)} if until_ms else {})

    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id}: {answer} to {body}"
        has_passed = bool(until_ms) and until_ms <= now_ms
        if job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        elif answer.is_ok and has_passed:
            hold(bool(job.pauses) and job.pauses[-1][2] == by, "a-pause-that-has-passed-is-refused", what)
        elif answer.is_ok:
            job.pause(now_ms, until_ms, by)
            job.version = answer.body["version"]
        else:
            hold(has_passed or job.definition.ends, "a-pause-is-granted", what)

    def effect(now_ms: int) -> None:
        if job.pause(now_ms, until_ms, by) and job.version is not None:
            job.version += 1

    return Ask("POST", f"/jobs/{job.id}/pause", body, job, ("version", "pauses"), judge, effect)


def resume_job(job: Job, by: str) -> Ask:
    def judge(answer: Answer, now_ms: int) -> None:
        what = f"{job.id}: {answer}"
        if job.definition is None:
            hold(answer.status == 404, "what-is-deleted-is-gone", what)
        elif answer.is_ok:
            did_it = job.open_pause(now_ms) is not None or job.resumed_by == by
            hold(answer.body["changed"] == did_it, "a-resumption-says-what-it-did", what)
            job.resume(now_ms, by)
            job.version = answer.body["version"]
        else:
            hold(job.definition.ends, "a-resumption-is-granted", what)

    def effect(now_ms: int) -> None:
        if job.resume(now_ms, by) and job.version is not None:
            job.version += 1

    return Ask("POST", f"/jobs/{job.id}/resume", {"by": by}, job, ("version", "changed"), judge, effect)
