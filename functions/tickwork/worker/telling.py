"""Telling the queue something of messages: what it does not take is logged, and never raised.

The queue is not the record: what it was not told costs a duplicate, or a wait for what it was told before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")


def tell(failure: str, batch: Sequence[Delivery], call: Callable[[], Any]) -> list[int]:
    """One call for a batch; the places of those that it has not, or perhaps not, taken."""
    try:
        failed = call().get("Failed") or []
    except (ClientError, BotoCoreError) as error:
        log.info(failure, extra={"facts": {"runs": len(batch), "error": repr(error)}})
        return list(range(len(batch)))
    for entry in failed:
        log.info(failure, extra={"facts": batch[int(entry["Id"])].names | {"error": entry.get("Code")}})
    return [int(entry["Id"]) for entry in failed]
