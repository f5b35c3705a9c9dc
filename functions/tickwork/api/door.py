"""The second door: what its authorizer answers API Gateway about a credential.

Owns who is sent away at the door, and who is let on to hear from the API why he is refused. Decides nothing else: the
API reads the credential once more (`gate.DeployedGate`), so that what is answered here opens nothing by itself, and
neither does an answer that API Gateway remembers. Protects the API's executions from whoever never had a credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from tickwork.api.gate import Bearers, bearer_of
from tickwork.core.errors import CallerError, ExpiredKey, ExpiredToken, Forbidden, RevokedKey
from tickwork.ports import Ports

REMEMBERED_S = 25
"""How long API Gateway answers by itself for a header that it has asked about. With the 30 s for which a
process trusts what it has read it stays below the minute within which a revocation holds."""

HAD_ONE = (ExpiredKey, RevokedKey, ExpiredToken, Forbidden)
"""Refusals that only a credential can earn which was issued once. They are told in full, by the API. What is refused
otherwise anybody can make up, as much as he likes: that ends here, in the words of API Gateway."""


class Admission(TypedDict):
    """The answer of an authorizer, in API Gateway's simple format 2.0."""

    isAuthorized: bool
    context: dict[str, str]


def admission(ports: Ports, bearers: Bearers, event: Mapping[str, Any]) -> Admission:
    """Goes by the identity source alone, which is what API Gateway remembers the answer by. A store that does not
    answer raises: that is remembered by nobody, and alarmed."""
    (shown, *more) = event.get("identitySource") or [""]
    credential = None if more else bearer_of(str(shown))
    if credential is None:
        return _answer(is_let_on=False)
    try:
        actor = bearers.actor_of(ports, credential)
    except CallerError as error:
        return _answer(is_let_on=isinstance(error, HAD_ONE), refused=error.slug)
    return _answer(is_let_on=True, actor=actor.name)


def _answer(*, is_let_on: bool, **context: str) -> Admission:
    """The context is for the access log."""
    return {"isAuthorized": is_let_on, "context": context}
