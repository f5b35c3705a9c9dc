"""Judging one job: is it silent, by what is known of it?

Protects: `unknown` and never `missed` where the definition cannot be read for now (the error goes up). A success that
the ledger has and the job has not, for its worker died between the two, counts. Where the ledger cannot be asked, the
job's own word counts: nothing that cannot be dispatched or ended succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import WorldError
from tickwork.core.ids import split_job_id
from tickwork.core.jobs.contracts import Contract, contract_of, of_team
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import Paused
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run, due_from
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.watch import silence
from tickwork.core.watch.incidents import SILENT, UNREADABLE, Incident, opened
from tickwork.core.watch.silence import Expected
from tickwork.flows.access import registry
from tickwork.flows.ledger import paused, reading
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

RUNS_LOOKED_AT = 10
"""The newest of a job, when it is about to be called silent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a job now. `incident`: one that is to be opened; `expected`: by when the next success must
    come; neither: nobody waits for it. `job` None: it is gone, or cannot be read."""

    contract: Contract
    job: Job | None = None
    expected: Expected | None = None
    incident: Incident | None = None


class Judge:
    """Judges jobs within one pass: what is paused and what teams say is read once."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._paused: Paused | None = None
        self._teams: dict[str, TeamContent | None] = {}

    def of(self, job_id: str, known_s: int = 0) -> Verdict:
        """Raises WorldError when it cannot be told for now."""
        team = self.team(split_job_id(job_id)[0])
        now_ms = self._ports.clock.now_ms()
        try:
            job = reading.read_job_to_plan(self._ports, job_id)
        except Unreadable as error:
            return Verdict(of_team(team), incident=_unreadable(job_id, str(error), now_ms))
        if job is None:
            return Verdict(of_team(team))
        contract, pauses = contract_of(job, team), self._pauses(job)
        expected = silence.expected(job, contract, pauses, known_s)
        if expected is None or not expected.is_missed(now_ms):
            return Verdict(contract, job, expected)
        expected, why = self._by_ledger(job, contract, pauses, known_s, expected)
        if expected is None or not expected.is_missed(now_ms):
            return Verdict(contract, job, expected)
        return Verdict(contract, job, expected, _silent(job, expected, why or silence.why(job, pauses, now_ms), now_ms))

    def again(self, incident: Incident) -> Verdict:
        """Of a job whose incident is open: it goes on while the job has neither succeeded nor changed since. That
        costs a read, however long it goes on and however hard its schedule is to work out."""
        if incident.kind == SILENT:
            team = self.team(incident.of_team)
            try:
                job = reading.read_job(self._ports, incident.job_id)
            except Unreadable:
                return self.of(incident.job_id, incident.silence_s)
            if job is not None and job.version == incident.version and job.status != DELETED:
                contract = contract_of(job, team)
                if contract.is_watched and silence.last_success_ms(job) <= incident.since_ms:
                    return Verdict(contract, job, incident=incident)
        return self.of(incident.job_id, incident.silence_s)

    def team(self, name: str) -> TeamContent | None:
        """What a team says. While the table of teams is busy this raises, as all does that is in it."""
        if name not in self._teams:
            self._teams[name] = registry.said_by(self._ports, name, anew=True)
        return self._teams[name]

    def _pauses(self, job: Job) -> tuple[Pause, ...]:
        if self._paused is None:
            self._paused = paused.read_paused(self._ports)
        return self._paused.applied_to(job).pauses

    def _by_ledger(
        self, job: Job, contract: Contract, pauses: tuple[Pause, ...], known_s: int, expected: Expected
    ) -> tuple[Expected | None, str]:
        """What the newest runs say: a success that the job does not know of, or how far the last one came."""
        try:
            runs = self._newest(job)
        except WorldError as error:
            self._ports.signals.log("runs_not_looked_at", job_id=job.job_id, error=repr(error))
            return expected, ""
        ends = [run.ended_at_ms for run in runs if run.status == lifecycle.SUCCEEDED]
        seen_ms = max(ends, default=0)
        if seen_ms > expected.since_ms:
            return silence.expected(job, contract, pauses, known_s, seen_ms), ""
        under_way = [run for run in runs if not run.ended and run.dispatched_first_at_ms]
        return expected, _how_far(under_way[0]) if under_way and job.reason is None else ""

    def _newest(self, job: Job) -> list[Run]:
        keys, _ = self._ports.store.query_index(
            TIMERS, BY_JOB, job.job_id, limit=RUNS_LOOKED_AT, after=None, descending=True
        )
        items = read_many(self._ports, TIMERS, [{"pk": key["pk"], "sk": key["sk"]} for key in keys])
        found: list[Run] = []
        for item in items:
            try:
                due = None if item is None else due_from(item)
            except Unreadable:  # its own alarm is on
                continue
            if isinstance(due, Run) and not due.key.kind:
                found.append(due)
        return found


def _how_far(run: Run) -> str:
    if run.status == lifecycle.RUNNING:
        return f"its run {run.key.ref} was started by {run.worker} and has not ended"
    if run.status == lifecycle.WAITING:
        return f"its run {run.key.ref} has failed {len(run.attempts)} times and is tried again"
    return f"its run {run.key.ref} was dispatched, and no worker has started it"


def _silent(job: Job, expected: Expected, why: str, now_ms: int) -> Incident:
    new = opened(job.job_id, SILENT, now_ms)
    return replace(
        new,
        since_ms=expected.since_ms,
        by_ms=expected.by_ms,
        silence_s=expected.silence_s,
        version=job.version,
        why=why,
    )


def _unreadable(job_id: str, why: str, now_ms: int) -> Incident:
    return replace(opened(job_id, UNREADABLE, now_ms), why=why[:200])
