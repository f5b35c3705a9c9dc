"""What fails for one run costs that run only (F14): its neighbours in a batch, and the process, go on.

Two things may be amiss beyond a busy world: what is stored cannot be read by this version, or the fault is ours. Both
are told and counted here; neither is swallowed.
"""

from __future__ import annotations

from tickwork.core.errors import told_error, told_way
from tickwork.core.ledger.items import Unreadable
from tickwork.ports import Ports

UNREADABLE = "unreadable"
NOT_YOURS = "not_yours"
"""The run is another team's: its message is for that team's workers, and soon visible again."""
TRY_AGAIN_S = 300
"""A run that could not be worked on is tried again when somebody may have mended it."""


def tell(ports: Ports, ref: str, error: Exception) -> None:
    """Say that a run could not be worked on, and why."""
    if isinstance(error, Unreadable):
        ports.signals.count("scheduler.set_aside_total")
        ports.signals.log("item_set_aside", ref=ref, why=str(error))
        return
    ports.signals.count("runs.internal_errors_total")
    ports.signals.log("run_call_failed", ref=ref, error=told_error(error), traceback=told_way(error))
