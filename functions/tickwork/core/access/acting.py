"""On whose behalf something is done: the actor of this request, and from where it came, for the record.

Owns nothing that decides: what an actor may do is the wall's. Refuses to know what a request asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.access.actors import Actor
from tickwork.core.access.masking import masked
from tickwork.core.texts import cleaned

ADDRESS_CHARS_MAX = 45
"""Of an IPv6 address that ends in an IPv4 one."""
AGENT_CHARS_MAX = 120
REQUEST_ID_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Acting:
    """Who acts, and from where as far as that is known. `address` is the one that the door has seen, never one that a
    client has written; `agent` is what it calls itself."""

    actor: str
    role: str = ""
    address: str = ""
    agent: str = ""
    request_id: str = ""

    @property
    def by(self) -> str:
        """Who, as a timer's item says it; empty where it was nobody's request."""
        return "" if self.actor == SERVICE.actor else self.actor


SERVICE = Acting("service")
"""Nobody's request: a window, the reconciler, or a flow that is called from Python."""


def acting(actor: Actor, address: str, agent: str, request_id: str) -> Acting:
    return Acting(
        actor.name,
        actor.role,
        cleaned(address, ADDRESS_CHARS_MAX),
        cleaned(masked(agent), AGENT_CHARS_MAX),
        cleaned(request_id, REQUEST_ID_CHARS_MAX),
    )
