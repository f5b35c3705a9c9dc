"""What clients read: previews, which are held to what then happens, and lists, which are paged while things go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.actions.model import TEAM, Job, Promises, hold
from tests.actions.world import Body, World
from tests.scenarios.stage import NOW_MS
from tickwork.core.dispatch import backlog
from tickwork.core.instants import DAY_MS, SECOND_MS, iso, parse_iso

PREVIEWED: Final = 6
PAGE: Final = 3
PAGES_MAX: Final = 200
"""Of a list of at most some hundred things: one that has more does not end."""
_NOT_RUN: Final = ("skipped", "cancelled")


@dataclass(slots=True)
class Preview:
    """What a preview has said of a job, as it was then."""

    job: Job
    epoch: int
    at_ms: int
    rows: list[Body]

    def check(self, world: World, until_ms: int) -> None:
        """Of what was due since then, and up to an instant up to which all was served."""
        every = _runs_of(world, self.job)
        runs = [one for one in every if "kind" not in one]
        lateness = self.job.history[-1][1].max_lateness_s if self.job.history[-1][1] else 0
        for row in self.rows:
            due_ms = parse_iso(row["scheduled_at"])
            if due_ms > until_ms:
                break
            found = [one for one in runs if one["scheduled_at"] == row["scheduled_at"]]
            what = f"{self.job.id} {row}: {[(one['status'], one['reason']) for one in found]}"
            if "will not run" in (row["note"] or ""):
                hold(all(one["status"] in _NOT_RUN for one in found), "preview-is-what-happens", what)
                continue
            hold(found, "preview-is-what-happens", what)
            is_skipped = all(one["status"] in _NOT_RUN for one in found)
            if "will be skipped" in (row["note"] or ""):
                hold(is_skipped, "preview-is-what-happens", what)
            else:
                is_late = bool(lateness) and all(one["reason"] == "too_late" for one in found)
                is_held = all(_was_held(one, every) for one in found)
                hold(not is_skipped or is_late or is_held, "preview-is-what-happens", what)
        self._nothing_else(runs, until_ms)

    def _nothing_else(self, runs: list[Body], until_ms: int) -> None:
        last_ms = parse_iso(self.rows[-1]["scheduled_at"]) if len(self.rows) == PREVIEWED else until_ms
        promised = {row["scheduled_at"] for row in self.rows}
        for run in runs:
            due_ms = parse_iso(run["scheduled_at"])
            if self.at_ms < due_ms <= min(until_ms, last_ms) and run["status"] != "cancelled":
                what = f"{self.job.id} {run['scheduled_at']} is {run['status']}, promised were {sorted(promised)}"
                hold(run["scheduled_at"] in promised, "preview-is-what-happens", what)


def _was_held(run: Body, runs: list[Body]) -> bool:
    """Whether it was skipped because of another run, and that had not ended when it was due."""
    by = (run.get("held_by") or {}).get("run_id")
    holders = [one for one in runs if one["run_id"] == by and one is not run]
    due_ms = parse_iso(run["scheduled_at"])
    return run["reason"] == "overlap" and any(
        one["ended_at"] is None or parse_iso(one["ended_at"]) >= due_ms for one in holders
    )


def preview(world: World, job: Job) -> Preview | None:
    answer = world.ask("GET", f"/jobs/{job.id}/next", count=str(PREVIEWED))
    if job.definition is None:
        hold(answer.status == 404, "what-is-deleted-is-gone", answer)
        return None
    hold(answer.is_ok, "a-preview-is-given", answer)
    return Preview(job, job.epoch, world.at_ms, answer.body["occurrences"])


def _runs_of(world: World, job: Job) -> list[Body]:
    return [dict(one) for one in world.must("GET", f"/jobs/{job.id}/runs", limit="200")["runs"]]


# --- lists ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Paging:
    """Somebody goes through a list, page by page, while others go on."""

    path: str
    entries: str
    name: str
    query: dict[str, str]
    standing: Callable[[], set[str]]
    """What belongs into the list now."""
    expected: set[str] = field(default_factory=set)
    """What was there at the beginning, and has been all the time."""
    shown: list[str] = field(default_factory=list)
    cursor: str | None = None
    pages: int = 0
    on_page: Callable[[list[Body]], object] = lambda _: None

    def begin(self) -> Paging:
        self.expected = self.standing()
        return self

    def turn(self, world: World) -> bool:
        """The next page; whether that was the last."""
        self.expected &= self.standing()
        more = {"cursor": self.cursor} if self.cursor else {}
        found = world.must("GET", self.path, **self.query, **more)
        page = [dict(one) for one in found[self.entries]]
        self.pages += 1
        names = [str(one[self.name]) for one in page]
        twice = [one for one in names if one in self.shown or names.count(one) > 1]
        hold(not twice, "a-list-shows-each-once", f"{self.path} {self.query}: {twice} again on page {self.pages}")
        self.shown += names
        self.on_page(page)
        self.cursor = found["cursor"]
        hold(self.pages < PAGES_MAX, "a-list-ends", f"{self.path} {self.query}: {self.pages} pages")
        if self.cursor is not None:
            return False
        missing = (self.expected & self.standing()) - set(self.shown)
        hold(
            not missing,
            "a-list-shows-each-once",
            f"{self.path} {self.query}: {sorted(missing)} not in {self.pages} pages",
        )
        return True


def runs_list(world: World, status: str, on_page: Callable[[list[Body]], object]) -> Paging:
    def standing() -> set[str]:
        found = set()
        lease = world.lease()
        for run in world.runs():
            if run.key.fire_at_ms > world.at_ms:
                continue
            shown = "queued" if run.status == "pending" and backlog.has_passed(lease, run.key) else run.status
            if status in ("", shown):
                found.add(run.key.ref)
        return found

    query = {"team": TEAM, "limit": str(PAGE), "since": iso(NOW_MS - DAY_MS // 24)}
    query |= {"status": status} if status else {}
    return Paging("/runs", "runs", "ref", query, standing, on_page=on_page).begin()


def jobs_list(promises: Promises) -> Paging:
    def standing() -> set[str]:
        return {job.id for job in promises.jobs.values() if job.definition is not None}

    return Paging("/jobs", "jobs", "job_id", {"team": TEAM, "limit": "1"}, standing).begin()


def history_list(world: World, job: Job) -> Paging:
    def standing() -> set[str]:
        return {run.key.ref for run in world.runs() if run.key.job_id == job.id}

    return Paging(f"/jobs/{job.id}/runs", "runs", "ref", {"limit": str(PAGE)}, standing).begin()


def dead_list(world: World) -> Paging:
    def standing() -> set[str]:
        return {run.key.ref for run in world.runs() if run.status == "dead"}

    return Paging("/dead-letters", "runs", "ref", {"team": TEAM, "limit": str(PAGE)}, standing).begin()


def served_to(world: World) -> int:
    """Up to when everything that was due has been dispatched or decided."""
    return world.lease().done * SECOND_MS


def status_of(world: World, named: Any) -> Body:
    (found,) = [one for one in _all_runs(world, named["job_id"]) if one["ref"] == named["ref"]]
    return found


def _all_runs(world: World, job_id: str) -> list[Body]:
    return [dict(one) for one in world.must("GET", f"/jobs/{job_id}/runs", limit="200")["runs"]]
