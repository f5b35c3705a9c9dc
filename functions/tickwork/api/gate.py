"""Who calls: from an event of the HTTP API to the actor behind it.

A credential of ours (an API key) counts wherever it comes in; what else proves a caller depends on the door. Refuses to
know any route. Protects: an actor is made of what was proven, never of a field that the client wrote for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tickwork.core.access.acting import Acting, acting
from tickwork.core.access.actors import LOCAL, Actor, Rule, actor_of_principal
from tickwork.core.errors import Unauthenticated
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.ports import Ports

_BEARER = "bearer "


class Gate(Protocol):
    def actor_of(self, ports: Ports, event: Mapping[str, Any]) -> Actor:
        """Unauthenticated or Forbidden when nobody is behind it that we know."""
        ...


class KeyGate:
    """Lets in who shows a key, and nobody else: the walls of a deployment, on one machine."""

    def __init__(self, keys: KnownKeys | None = None) -> None:
        self._keys = keys or KnownKeys()

    def actor_of(self, ports: Ports, event: Mapping[str, Any]) -> Actor:
        key = _key_in(event)
        return self._without_key(event) if key is None else self._keys.actor_of(ports, key)

    def _without_key(self, event: Mapping[str, Any]) -> Actor:  # noqa: ARG002 - other gates look at it
        raise Unauthenticated(
            "the request has no API key",
            remedy="send the header `Authorization: Bearer tw_...` (clients: TICKWORK_API_KEY)",
        )


class OpenGate(KeyGate):
    """Lets everybody in as `local`, for an API that only this machine reaches. Who shows a key is who it says."""

    def _without_key(self, event: Mapping[str, Any]) -> Actor:  # noqa: ARG002
        return LOCAL


class IamGate(KeyGate):
    """Behind API Gateway's IAM authorizer, which has checked the signature and says whose it is."""

    def __init__(self, rules: Sequence[Rule], keys: KnownKeys | None = None) -> None:
        super().__init__(keys)
        self._rules = rules

    def _without_key(self, event: Mapping[str, Any]) -> Actor:
        authorizer = (event.get("requestContext") or {}).get("authorizer") or {}
        arn = (authorizer.get("iam") or {}).get("userArn") or ""
        return actor_of_principal(str(arn), self._rules)


def _key_in(event: Mapping[str, Any]) -> str | None:
    """The key that a request shows; None when it shows none (a signature is API Gateway's to read)."""
    headers = event.get("headers") or {}
    given = next((str(value) for name, value in headers.items() if name.lower() == "authorization"), "")
    if given[: len(_BEARER)].lower() != _BEARER:
        return None
    return given[len(_BEARER) :].strip()


def acting_of(event: Mapping[str, Any], actor: Actor) -> Acting:
    """Who acts and from where, for the record: the address is what the door has seen, whatever headers say of it."""
    context = event.get("requestContext") or {}
    http = context.get("http") or {}
    headers = event.get("headers") or {}
    agent = next((str(value) for name, value in headers.items() if name.lower() == "user-agent"), "")
    return acting(actor, str(http.get("sourceIp") or ""), agent, str(context.get("requestId") or ""))
