"""Whether each change of a job has its entry in the audit, and each entry its change: in one commit, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import AUDIT, JOBS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change


class AuditChecks:
    """A job's version goes up with what people change of it, and with nothing else."""

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        told = {
            str(item["stream"]): item
            for table, was, item in changes
            if table is AUDIT and was is None and item is not None and ":job:" in item["stream"]
        }
        changed = {
            str(now["job_id"]).replace(":", ":job:", 1): now
            for table, was, now in changes
            if table is JOBS and now is not None and (was is None or was["version"] != now["version"])
        }
        for stream in sorted(changed.keys() | told.keys()):
            if (why := _wrong(changed.get(stream), told.get(stream))) is not None:
                raise Violation("audited", f"{process.name}, {stream}: {why}")


def _wrong(job: Item | None, entry: Item | None) -> str | None:
    if entry is None:
        return "it was changed, and no entry says so"
    if job is None:
        return f"an entry says {entry['action']}, and nothing was changed"
    if not str(job.get("audit_head", "")).endswith(f".{entry['hash']}"):
        return f"it does not carry the head of {entry['action']}"
    return None if job["version"] == entry["version"] else f"the entry says version {entry['version']}"
