"""Runs whose handler this worker lacks: in a rollout another has it already, so they are left where they are (W12).

Protects that nothing is written and no attempt used up for them; the platform is told, so that a handler which nobody
ever has does not wait unseen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")

TELL_S = 5.0


def tell_unhandled(api: ApiClient, worker: str, unhandled: Sequence[Delivery]) -> None:
    """Say which runs this worker has left to others. Nothing rests on it; an older platform does not ask."""
    for delivery in unhandled:
        log.warning("unknown handler", extra={"facts": delivery.names | {"handler": delivery.handler}})
    runs = [{"ref": delivery.ref, "handler": delivery.handler} for delivery in unhandled]
    try:
        api.post("/runs:unhandled", {"worker": worker, "runs": runs}, repeat=False, timeout_s=TELL_S)
    except (ApiUnreachable, ApiRefused) as error:
        log.info("unknown handlers not told", extra={"facts": {"runs": len(runs), "error": str(error)}})


def is_about_handlers(error: ApiRefused) -> bool:
    """Whether a platform of an older version has refused to be told which handlers there are."""
    faults = error.problem.get("errors")
    return isinstance(faults, list) and any(isinstance(one, dict) and one.get("field") == "handlers" for one in faults)
