"""The claims of starts whose outcome a worker does not know: they are named again when the message comes again.

A start that found no answer, or `busy`, may have taken effect all the same. Asked again by another claim it is held, by
nobody, until its lease lapses, and that costs an attempt, of an `unsafe` run the only one; asked again by its own claim
it is granted. Protects that a claim stands for one delivery at a time: it is forgotten when it is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.worker.delivery import Delivery

CLAIMS_MAX = 1_000
"""Of an outage: what comes back after that many others is claimed anew, as any other worker would."""

type _Message = tuple[str, str, str]


class Claims:
    """Used by the one thread that takes."""

    def __init__(self) -> None:
        self._kept: dict[_Message, str] = {}

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Nobody knows whether these starts have been granted."""
        for delivery in deliveries:
            self._kept.pop(_message(delivery), None)
            self._kept[_message(delivery)] = delivery.claim
        while len(self._kept) > CLAIMS_MAX:
            del self._kept[next(iter(self._kept))]

    def name_again(self, deliveries: Sequence[Delivery]) -> None:
        """Give a message that has come again the claim of its unanswered start."""
        for delivery in deliveries:
            delivery.claim = self._kept.pop(_message(delivery), delivery.claim)


def _message(delivery: Delivery) -> _Message:
    return delivery.ref, str(delivery.body.get("attempt", 1)), str(delivery.body.get("retry_ref", ""))
