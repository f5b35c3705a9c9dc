"""What a run is to do: on its own item for a one-shot; for an occurrence of a job, in the definition it was fired by.

Protects W13: every attempt, replay, repeated message and audit of an occurrence goes by the same definition, whatever
has become of its job since. Most are the job's present one, and cost no read beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tickwork.core.errors import NotFound, WorldError
from tickwork.core.jobs.definitions import REPLACED, Definition, Job
from tickwork.core.jobs.versions import JobVersion, is_in_force_at, renewals
from tickwork.core.ledger import items
from tickwork.core.ledger.keys import LedgerKey, versions_reaching
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOB_VERSIONS
from tickwork.core.ledger.work import Work
from tickwork.flows.ledger import platform_defaults
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_job
from tickwork.ports import Ports

VERSIONS_PAGE = 100
VERSIONS_READ_MAX = 5_000
"""Definitions that are looked through for one that somebody asks for by its version. They expire after some months: a
job that is changed every half hour has no more."""


def work_of(ports: Ports, run: Run) -> Work | None:
    """What a run is to do; None when that is not known any more."""
    if run.work is not None:
        return run.work  # its job is not asked
    return Versions(ports).work_of(read_job(ports, run.key.job_id), run)


def definition_at(ports: Ports, job_id: str, version: int) -> JobVersion | None:
    """The definition that a job had at a version, if it has been replaced since and is still kept."""
    found: JobVersion | None = None
    for row in _replaced(ports, job_id):
        # A name whose tombstone has expired counts from 1 again: it is the latest of a number that is meant.
        found = row if row.was_in_force_at(version) else found
    return found


def _replaced(ports: Ports, job_id: str) -> Iterator[JobVersion]:
    """The definitions that a job had, the oldest first."""
    read = 0
    for page in pages(ports, JOB_VERSIONS, job_id, "", "~", limit=VERSIONS_PAGE):
        yield from map(JobVersion.from_item, page.items)
        read += len(page.items)
        if read >= VERSIONS_READ_MAX:
            return


def job_at(ports: Ports, job_id: str, version: int) -> Job:
    """A job as it was defined at a version, deleted ones included: `replaced`, with nothing pending, and no pause. The
    job itself where that is its version now; NotFound where nobody knows, any more or yet."""
    job = read_job(ports, job_id)
    if job is not None and version == job.version:
        return job
    defined: Definition | None = None
    if job is not None and version < job.version:
        defined = job if is_in_force_at(job, version) else definition_at(ports, job_id, version)
    if job is None or defined is None:
        raise NotFound(
            f"nothing is known of version {version} of {job_id!r}",
            field="version",
            remedy="a definition is kept for the retention time and 90 days after it was replaced; see GET /audit",
        )
    as_defined = replace(job, **items.values_of(defined, Definition))
    # A mark that was set later holds for what is shown of earlier, for it was as secret then; also when it is gone.
    later = (one.work.secret_fields for one in _replaced(ports, job_id) if one.version >= version)
    marks = sorted({*defined.work.secret_fields, *job.work.secret_fields}.union(*later))
    as_defined = replace(as_defined, work=replace(defined.work, secret_fields=tuple(marks)))
    gone: dict[str, Any] = {
        "next": None,
        "last": None,
        "last_success_at_ms": 0,
        "pauses": (),
        "cancelled": (),
        "skips": (),
        "reason": None,
    }
    return replace(as_defined, version=version, status=REPLACED, **gone)


@dataclass(slots=True)
class Versions:
    """Looks up earlier definitions, each once: a herd's retries may all be of one."""

    ports: Ports
    known: dict[str, list[JobVersion]] = field(default_factory=dict)

    def work_of(self, job: Job | None, run: Run) -> Work | None:
        """What a run of a job (as it was read; None: there is none) is to do."""
        if run.work is not None:
            return run.work
        asked = run.definition
        definition = self._asked_for(job, run.key, asked) if asked else self.fired_by(job, run.key)
        return None if definition is None else platform_defaults.work_by(self.ports, definition, run)

    def fired_by(self, job: Job | None, key: LedgerKey) -> Definition | None:
        """By the definition that an occurrence was fired by, or is to be."""
        if job is not None and key.scheduled_at_ms > job.earlier_through_ms:
            return job
        row = next((one for one in self.known.get(key.job_id, ()) if one.fired(key.scheduled_at_ms)), None)
        return self._used(row or self._read(key))

    def _asked_for(self, job: Job | None, key: LedgerKey, version: int) -> Definition | None:
        """By the definition that the job had at a version, which somebody has asked for."""
        if job is not None and is_in_force_at(job, version):
            return job
        return self._used(definition_at(self.ports, key.job_id, version))

    def _read(self, key: LedgerKey) -> JobVersion | None:
        """The oldest definition that reaches an occurrence, if it is the one which fired it: that may have expired, and
        is then not guessed at."""
        first, last = versions_reaching(key.scheduled_at_ms)
        for page in pages(self.ports, JOB_VERSIONS, key.job_id, first, last, limit=1):
            for item in page.items:
                row = JobVersion.from_item(item)
                if not row.fired(key.scheduled_at_ms):
                    return None
                self.known.setdefault(key.job_id, []).append(row)
                return row
        return None

    def _used(self, row: JobVersion | None) -> JobVersion | None:
        """A run that is alive needs it: it lives on."""
        if row is None:
            return None
        for write in renewals(row, self.ports.clock.now_ms(), self.ports.layout.retention_s):
            try:
                commit(self.ports, write)
            except WorldError as error:  # there are weeks left: the next look renews it
                self.ports.signals.log("definition_not_renewed", job_id=row.job_id, error=repr(error))
        return row
