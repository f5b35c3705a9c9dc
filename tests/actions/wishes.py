"""What clients want: each draw is a request, or something that is done at once (a preview, a list, an accident)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.actions import asks, asks_by_hand, asks_of_runs, watching
from tests.actions.asks import Ask
from tests.actions.asks_of_runs import WantedTimer
from tests.actions.model import TEAM, Definition, Job, Promises, hold
from tests.actions.watching import Paging, Preview
from tests.actions.world import Body, World
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.ledger.tables import JOBS, PAYLOADS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Put

NAMES: Final = ("j0", "j1")
TEXTS: Final = ("", "", "", "x" * 500, "odd \ufffe\uffff \x01")
"""Of payloads."""


@dataclass(slots=True)
class Client:
    """Somebody who makes one request after the other, and waits for each answer."""

    name: str
    owed: Ask | None = None
    """A request without an answer."""
    again_ms: int = 0
    paging: Paging | None = None
    made: list[Ask] = field(default_factory=list)


class Wishes:
    def __init__(self, rng: Random, world: World, promises: Promises, note: Callable[[str], object]) -> None:
        self._rng, self._world, self._promises, self._note = rng, world, promises, note
        self.previews: list[Preview] = []
        self._marks = self._keys = 0

    def draw(self, client: Client) -> Ask | None:
        job = self._promises.job(self._rng.choice(NAMES))
        wish = self._rng.choice(_WISHES)
        return wish(self, client, job)

    def _definition(self, *, is_job: bool) -> Definition:
        self._marks += 1
        definition = Definition(
            mark=self._marks,
            handler=self._rng.choice("ab"),
            lease_s=self._rng.choice((30, 40, 50)),
            max_attempts=self._rng.randint(1, 3),
            base_s=self._rng.choice((2, 5, 9)),
            schedule=self._schedule() if is_job else "",
            max_lateness_s=self._rng.choice((0, 0, 5)) if is_job else 0,
            text=self._rng.choice(TEXTS),
        )
        self._promises.definitions[definition.mark] = definition
        return definition

    def _schedule(self) -> str:
        now_ms = self._world.at_ms
        drawn = self._rng.random()
        if drawn < 0.65:
            spec: Body = {"rate": f"{self._rng.choice((5, 7, 12, 30, 60))} seconds", "anchor": iso(NOW_MS)}
        elif drawn < 0.75:
            spec = {"cron": "* * * * *"}
        elif drawn < 0.85:
            spec = {"at": iso(now_ms + self._rng.randint(3, 60) * SECOND_MS)}
        else:
            end = iso(now_ms + self._rng.randint(20, 90) * SECOND_MS)
            spec = {"rate": "7 seconds", "anchor": iso(NOW_MS), "end": end}
        return json.dumps(spec)

    def _create(self, _: Client, job: Job) -> Ask:
        if job.definition is not None and self._rng.random() < 0.3:
            return asks.create_job(job, job.definition)
        return asks.create_job(job, self._definition(is_job=True))

    def _change(self, _: Client, job: Job) -> Ask | None:
        base = job.definition
        if base is None:
            return None
        shown = self._world.must("GET", f"/jobs/{job.id}")
        hold(job.version in (None, shown["version"]), "a-version-is-a-change", f"{job} is at {shown['version']}")
        job.version = shown["version"]
        drawn = self._definition(is_job=True)
        kept = [name for name in ("handler", "schedule", "max_attempts", "max_lateness_s") if self._rng.random() < 0.5]
        new = asks.merged(drawn, base, kept) if self._rng.random() < 0.85 else base
        self._promises.definitions[new.mark] = new
        return asks.change_job(job, shown["version"], base, new)

    def _pause(self, client: Client, job: Job) -> Ask:
        until_ms = self._world.at_ms // SECOND_MS * SECOND_MS + self._rng.randint(5, 60) * SECOND_MS
        return asks.pause_job(job, client.name, until_ms if self._rng.random() < 0.4 else 0)

    def _resume(self, client: Client, job: Job) -> Ask:
        return asks.resume_job(job, client.name)

    def _delete(self, _: Client, job: Job) -> Ask:
        return asks.delete_job(job)

    def _timers(self, _: Client, __: Job) -> Ask:
        wanted = []
        for _number in range(self._rng.choice((1, 1, 2, 3))):
            self._keys += 1
            delay_s = self._rng.randint(0, 40)
            when: Body = {"delay_s": delay_s}
            if self._rng.random() < 0.5:
                when = {"at": iso(self._world.at_ms + (delay_s + 1) * SECOND_MS)}
            wanted.append(WantedTimer(f"key-{self._keys}", self._definition(is_job=False), when))
        return asks_of_runs.create_timers(self._promises, wanted)

    def _cancel_next(self, _: Client, job: Job) -> Ask | None:
        """The coming occurrence of a job, by its nominal time."""
        if job.definition is None:
            return None
        coming = self._world.must("GET", f"/jobs/{job.id}")["next"]
        if coming is None:
            return None
        named = {"job_id": job.id, "scheduled_at": coming["scheduled_at"]}
        runs = self._world.must("GET", f"/jobs/{job.id}/runs", limit="50")["runs"]
        run = next(one for one in runs if one["scheduled_at"] == coming["scheduled_at"] and "kind" not in one)
        return asks_of_runs.cancel_run(self._promises, run, named, lambda: self._read_again(run, by="scheduled_at"))

    def _cancel_any(self, _: Client, __: Job) -> Ask | None:
        runs = self._world.must("GET", "/runs", team=TEAM, limit="30", since=iso(NOW_MS))["runs"]
        if not runs:
            return None
        run = self._rng.choice(runs)
        return asks_of_runs.cancel_run(self._promises, run, {"ref": run["ref"]}, lambda: self._read_again(run))

    def _replay(self, _: Client, __: Job) -> Ask | None:
        dead = self._world.must("GET", "/dead-letters", team=TEAM, limit="10")["runs"]
        if not dead:
            return None
        run = self._rng.choice(dead)
        return asks_of_runs.replay(self._promises, run, lambda: self._read_again(run))

    def _skip(self, _: Client, job: Job) -> Ask | None:
        found = watching.preview(self._world, job) if job.definition is not None and not job.is_unsettled else None
        ahead = asks_by_hand.coming(found.rows, self._world.at_ms) if found is not None else []
        return asks_by_hand.skip_one(job, self._rng.choice(ahead)) if ahead else None

    def _unskip(self, _: Client, job: Job) -> Ask | None:
        return asks_by_hand.unskip_one(job, self._rng.choice(sorted(job.skips))) if job.skips else None

    def _run_now(self, _: Client, job: Job) -> Ask | None:
        self._keys += 1
        live = [run.key.ref for run in self._world.runs() if run.key.job_id == job.id and not run.ended]
        return asks_by_hand.run_now(self._promises, job, f"run-{self._keys}", live)

    def _backfill(self, _: Client, job: Job) -> Ask | None:
        self._keys += 1
        until_ms = self._world.at_ms // SECOND_MS * SECOND_MS
        since_ms = until_ms - self._rng.randint(1, 60) * SECOND_MS
        more: Body = {
            "outcomes": self._rng.choice(("none", "failed", "all")),
            "concurrency": self._rng.randint(1, 3),
            "order": self._rng.choice(("oldest_first", "newest_first")),
            "client_key": f"backfill-{self._keys}",
        }
        return asks_by_hand.backfill(self._promises, job, since_ms, until_ms, more)

    def _set_backfill(self, _: Client, __: Job) -> Ask | None:
        if not self._promises.backfills:
            return None
        named = self._rng.choice(sorted(self._promises.backfills))
        return asks_by_hand.set_backfill(self._promises, named, self._rng.choice(("pause", "resume", "cancel")))

    def _read_again(self, run: Body, by: str = "ref") -> None:
        """The run as it stands now. Of several items of one instant the one that counts."""
        answer = self._world.ask("GET", f"/jobs/{run['job_id']}/runs", limit="200")
        if not answer.is_ok:  # its record has expired
            run["status"] = "forgotten"
            return
        runs = answer.body["runs"]
        found = [one for one in runs if one[by] == run[by] and one.get("kind") == run.get("kind")]
        live = [one for one in found if one["status"] != "cancelled"]
        run.update(next(iter(live or found), run))

    def _preview(self, _: Client, job: Job) -> None:
        if job.is_unsettled:
            return
        found = watching.preview(self._world, job)
        if found is not None:
            self.previews.append(found)
            self._note(f"preview of {job.id}: {[(row['scheduled_at'][11:19], row['note']) for row in found.rows]}")

    def _list(self, client: Client, job: Job) -> None:
        status = self._rng.choice(("", "queued", "queued", "succeeded", "dead", "cancelled", "skipped"))
        drawn = self._rng.random()
        if drawn < 0.6:
            cancels = status == "queued" and self._rng.random() < 0.5
            client.paging = watching.runs_list(self._world, status, self._cancel_page if cancels else lambda _: None)
        elif drawn < 0.7:
            client.paging = watching.jobs_list(self._promises)
        elif drawn < 0.85 and job.is_known:
            client.paging = watching.history_list(self._world, job)
        else:
            client.paging = watching.dead_list(self._world)
        self._note(f"list {client.paging.path} {client.paging.query}")

    def _cancel_page(self, page: list[Body]) -> None:
        if not page:
            return
        body = {"runs": [{"ref": one["ref"]} for one in page]}
        for entry in self._world.must("POST", "/runs:cancel", body)["runs"]:
            hold(entry["accepted"], "a-cancellation-is-granted", entry)
            self._promises.cancelled(entry["run_id"], entry["job_id"], "with its page")

    def _twice(self, _: Client, job: Job) -> None:
        """A key that stands twice: nothing is done."""
        body = b'{"by": "ann", "reason": "one", "reason": "two"}'
        answer = self._world.ask("POST", f"/jobs/{job.id}/pause", body)
        hold(400 <= answer.status < 500, "a-key-stands-once", answer)
        hold(not self._world.took_effect, "a-key-stands-once", answer)

    def _lose(self, _: Client, __: Job) -> None:
        """A payload that was kept apart vanishes: no job may be called without it."""
        kept = [one for one in self._world.store.items(PAYLOADS) if "payload" in one]
        if kept:
            lost = self._rng.choice(kept)
            key = {"payload_id": lost["payload_id"]}
            self._world.store.commit([Delete(PAYLOADS, key, Anyway("it vanishes"))])
            job = self._promises.job_of(str(lost["payload_id"]).partition("#")[0])
            payload = json.loads(lost["payload"])
            if job is not None and isinstance(payload, dict):  # and no page of a backfill's list
                job.lost.add(payload["mark"])
                job.epoch += 1
            self._note(f"lose {lost['payload_id']}")

    def _forget(self, _: Client, __: Job) -> None:
        """The record of a timer that has ended expires; its client key lives on."""
        ended = [run for run in self._world.runs() if run.ended and not run.is_of_job]
        if ended:
            key = self._rng.choice(ended).key
            self._world.store.commit([Delete(TIMERS, key.as_item(), Anyway("it expires"))])
            self._promises.forgotten.add(key.job_id)
            self._note(f"forget {key.job_id}")

    def _newer(self, _: Client, job: Job) -> None:
        """A newer version stores what this one does not know."""
        item = self._world.store.get(JOBS, {"job_id": job.id})
        if item is None:
            return
        for name in ("catch_up", "work"):
            if name in item:
                item = item | {name: {**item[name], "newer": 1}}
        if "retry" in item["work"]:
            item["work"] = {**item["work"], "retry": {**item["work"]["retry"], "newer": 1}}
        if item.get("pauses"):
            item = item | {"pauses": [{**one, "newer": 1} for one in item["pauses"]]}
        self._world.store.commit([Put(JOBS, item, Anyway("a newer version was here"))])
        self._note(f"newer {job.id}")


type _Wish = Callable[[Wishes, Client, Job], Ask | None]
_WISHES: Final[tuple[_Wish, ...]] = (
    *(Wishes._create,) * 5,
    *(Wishes._change,) * 4,
    *(Wishes._pause,) * 2,
    *(Wishes._resume,) * 2,
    *(Wishes._delete,) * 2,
    *(Wishes._timers,) * 4,
    *(Wishes._cancel_next,) * 3,
    *(Wishes._cancel_any,) * 2,
    *(Wishes._replay,) * 2,
    *(Wishes._preview,) * 4,
    *(Wishes._list,) * 4,
    *(Wishes._skip,) * 2,
    Wishes._unskip,
    *(Wishes._run_now,) * 2,
    *(Wishes._backfill,) * 2,
    *(Wishes._set_backfill,) * 2,
    Wishes._twice,
    Wishes._lose,
    Wishes._forget,
    Wishes._newer,
)
