"""What the audit ends because nobody has started it for too long, and what it leaves."""

from __future__ import annotations

from tests.scenarios.stage import Stage
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.flows.audit.mending import expire_unstarted
from tickwork.flows.audit.repairs import Repairs

FAR_MS = 40 * 86_400 * SECOND_MS


def test_the_next_occurrence_of_a_standing_chain_is_moved_on_and_never_ended_as_expired() -> None:
    """Its job may have been unreadable for weeks: ended here, nothing would step the chain any more."""
    stage = Stage()
    job_id = stage.job("hourly", {"rate": "1 hour", "anchor": "2026-01-01T00:00:00Z"})
    (upcoming,) = stage.store.items(TIMERS)
    stage.at_ms += FAR_MS
    repairs = Repairs()
    assert expire_unstarted(stage.process().ports, [upcoming], 0, repairs) == [upcoming]
    assert repairs.expired == 0
    stage.assert_chains_unbroken()

    # Without its job it is nobody's next: a run that no worker has taken.
    stage.store.commit([Delete(JOBS, {"job_id": job_id}, Anyway("a test"))])
    assert expire_unstarted(stage.process().ports, [upcoming], 0, repairs) == []
    assert repairs.expired == 1
