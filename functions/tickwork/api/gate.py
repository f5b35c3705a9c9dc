"""Who calls: from an event of the HTTP API to the actor behind it.

Owns which proof counts at which door. Refuses to know any route. Protects: an actor is made of what was proven, never
of a field that the client wrote for itself; and never of two proofs, of which the client could choose one.
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
SAYS_HOW = "send the header `Authorization: Bearer tw_...`, or a token there (clients: TICKWORK_API_KEY)"


class Bearers(Protocol):
    """Whoever reads what somebody shows: keys alone, or tokens too."""

    def actor_of(self, ports: Ports, text: str) -> Actor: ...


class Gate(Protocol):
    def actor_of(self, ports: Ports, event: Mapping[str, Any]) -> Actor:
        """Unauthenticated or Forbidden when nobody is behind it that we know."""
        ...


class KeyGate:
    """Lets in who shows a key, and nobody else: the walls of a deployment, on one machine."""

    def __init__(self, bearers: Bearers | None = None) -> None:
        self._bearers = bearers or KnownKeys()

    def actor_of(self, ports: Ports, event: Mapping[str, Any]) -> Actor:
        key = bearer_of(_header(event))
        return self._without_key(event) if key is None else self._bearers.actor_of(ports, key)

    def _without_key(self, event: Mapping[str, Any]) -> Actor:  # noqa: ARG002 - another gate lets such a one in
        raise Unauthenticated("the request shows no credential", remedy=SAYS_HOW)


class OpenGate(KeyGate):
    """Lets everybody in as `local`, for an API that only this machine reaches. Who shows a key is who it says."""

    def _without_key(self, event: Mapping[str, Any]) -> Actor:  # noqa: ARG002
        return LOCAL


class DeployedGate:
    """Behind the two doors of API Gateway (decision 127). Which one a request came through says what its authorizer
    left in the event, where no client can write.

    At the first, the signature counts, which API Gateway has checked, and a key beside it is not looked at. At the
    second, the credential counts, and it is read here once more: what the authorizer of that door says of it is not
    taken. What passed neither is refused, whatever it shows: a route without an authorizer opens nothing."""

    def __init__(self, rules: Sequence[Rule], bearers: Bearers | None = None) -> None:
        self._rules = rules
        self._credentials = KeyGate(bearers)

    def actor_of(self, ports: Ports, event: Mapping[str, Any]) -> Actor:
        authorizer = (event.get("requestContext") or {}).get("authorizer") or {}
        if "iam" in authorizer:
            return self._signed(authorizer["iam"] or {})
        if "lambda" in authorizer:
            return self._credentials.actor_of(ports, event)
        raise Unauthenticated(
            "the request came past both doors of this API: nothing of it was checked",
            remedy="call the URL of the outputs `ApiUrl`, with a signature, or `KeyApiUrl`, with a credential",
        )

    def _signed(self, iam: Mapping[str, Any]) -> Actor:
        if not (arn := str(iam.get("userArn") or "")):
            raise Unauthenticated("the signature names no principal", remedy="sign with the credentials of a role")
        return actor_of_principal(arn, self._rules)


def bearer_of(authorization: str) -> str | None:
    """The credential of an `Authorization` header; None when it shows another kind, or none."""
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip()


def _header(event: Mapping[str, Any], wanted: str = "authorization") -> str:
    headers = event.get("headers") or {}
    return next((str(value) for name, value in headers.items() if name.lower() == wanted), "")


def acting_of(event: Mapping[str, Any], actor: Actor) -> Acting:
    """Who acts and from where, for the record: the address is what the door has seen, whatever headers say of it."""
    context = event.get("requestContext") or {}
    address = str((context.get("http") or {}).get("sourceIp") or "")
    return acting(actor, address, _header(event, "user-agent"), str(context.get("requestId") or ""))
