"""Hands runs back: the platform releases their leases, and their messages are visible at once.

Protects W12 (what a worker that stops has begun costs no attempt and no time) and W3: a run whose job may still be
going on is handed back only for the moment at which its process will be gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.worker.answers import OF_THE_ENTRY, UNDECIDED, UNKNOWN_CALL, entries_of
from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")

CALL_S = 2.0
RUNS_PER_CALL_MAX = 25


class ReleaseApi(Protocol):
    def post(self, path: str, body: object, *, repeat: bool = True, timeout_s: float = ...) -> Any: ...


class GivesBack(Protocol):
    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None: ...

    def drop(self, deliveries: Sequence[Delivery]) -> None: ...


def hand_back(
    api: ReleaseApi, source: GivesBack, deliveries: Sequence[Delivery], stops_in_s: int = 0
) -> list[Delivery]:
    """Those that are to be tried again. What is refused for good is left: another has it, or the platform is of a
    version that takes nothing back, and its lease lapses."""
    again: list[Delivery] = []
    for begin in range(0, len(deliveries), RUNS_PER_CALL_MAX):
        again += _hand_some_back(api, source, deliveries[begin : begin + RUNS_PER_CALL_MAX], stops_in_s)
    return again


def _hand_some_back(
    api: ReleaseApi, source: GivesBack, some: Sequence[Delivery], stops_in_s: int
) -> Sequence[Delivery]:
    body = {"runs": [_entry(delivery, stops_in_s) for delivery in some]}
    try:
        answers = entries_of(api.post("/runs:release", body, repeat=False, timeout_s=CALL_S), len(some))
    except ApiRefused as error:
        return _refused(api, source, some, stops_in_s, error)
    except ApiUnreachable as error:
        log.warning("release failed", extra={"facts": {"runs": len(some), "error": str(error)}})
        return some
    taken, useless, again = [], [], []
    for delivery, answer in zip(some, answers, strict=True):
        if answer.get("accepted"):
            delivery.shown_in_s, delivery.is_given_back = stops_in_s, True
            log.info("handed back", extra={"facts": delivery.names | {"status": answer.get("status")}})
            taken.append(delivery)
        elif answer.get("reason") in UNDECIDED:
            again.append(delivery)
        elif answer.get("discard"):
            useless.append(delivery)
        else:
            log.warning("not handed back", extra={"facts": delivery.names | {"reason": answer.get("reason")}})
    if taken:
        source.give_back(taken, stops_in_s)
    if useless:
        source.drop(useless)
    return again


def _refused(
    api: ReleaseApi, source: GivesBack, some: Sequence[Delivery], stops_in_s: int, error: ApiRefused
) -> Sequence[Delivery]:
    """The whole call was refused. For what it says: one by one, so that one entry does not keep its neighbours. By an
    older platform: for good. For another reason, such as credentials that are about to change: again."""
    if error.status in OF_THE_ENTRY and len(some) > 1:
        return [again for one in some for again in _hand_some_back(api, source, [one], stops_in_s)]
    log.warning("not handed back", extra={"facts": {"runs": len(some), "error": str(error)}})
    return [] if error.status in OF_THE_ENTRY | UNKNOWN_CALL else some


def _entry(delivery: Delivery, stops_in_s: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"ref": delivery.ref, "token": delivery.token}
    optional = {"stops_in_s": stops_in_s, "receipt": delivery.lease_receipt}
    return entry | {name: value for name, value in optional.items() if value}
