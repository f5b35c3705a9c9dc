"""An issuer of tokens for tests: real keys, real signatures, and a desk that can be away."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tickwork.aws.tokens import JwtDesk
from tickwork.core.access.issuers import Issuer, parse_issuer
from tickwork.core.access.tokens import Key
from tickwork.core.instants import SECOND_MS

URL, AUDIENCE = "https://login.example.org", "tickwork"
RULES = "groups=tickwork-{team}-owners=>{team}/owner groups=payments-look=>payments/viewer"
LIFE_S = 3_600

type Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def issuer(rules: str = RULES, more: str = "") -> Issuer:
    found = parse_issuer(f"issuer={URL} audience={AUDIENCE} {more} {rules}")
    assert found is not None
    return found


@cache
def private(algorithm: str, name: str) -> Private:
    """A key; the same one for a name."""
    assert name
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP384R1() if algorithm == "ES384" else ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65_537, key_size=1_024 if name == "short" else 2_048)


def public(algorithm: str, name: str, **more: str) -> dict[str, Any]:
    """As an issuer publishes it."""
    key = private(algorithm, name).public_key()
    kind = jwt.algorithms.ECAlgorithm if algorithm.startswith("ES") else jwt.algorithms.RSAAlgorithm
    found: dict[str, Any] = json.loads(kind.to_jwk(key))  # type: ignore[arg-type]
    return found | {"kid": name, "use": "sig"} | more


def token(
    claims: Mapping[str, Any], *, algorithm: str = "ES256", key: str = "first", headers: Mapping[str, Any] | None = None
) -> str:
    named = {"kid": key} if headers is None else dict(headers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.warnings.InsecureKeyLengthWarning)  # that it is refused is a test
        # As bytes: `jwt.encode` would not sign what no issuer should say.
        return jwt.PyJWS().encode(json.dumps(dict(claims)).encode(), private(algorithm, key), algorithm, named)


def claims(now_ms: int, **more: Any) -> dict[str, Any]:
    """Of a token that was just issued; None takes one out."""
    second = now_ms // SECOND_MS
    usual = {"iss": URL, "aud": AUDIENCE, "sub": "ann", "iat": second, "exp": second + LIFE_S}
    return {name: value for name, value in (usual | more).items() if value is not None}


def part(found: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(found).encode()).decode().rstrip("=")


@dataclass
class Desk:
    """A `KeyDesk` with real signatures, whose issuer is here."""

    keys: list[dict[str, Any]] = field(default_factory=lambda: [public("ES256", "first")])
    asked: int = 0
    is_away: bool = False

    def published(self, _: Issuer) -> object:
        self.asked += 1
        if self.is_away:
            raise TimeoutError("no answer")
        return {"keys": self.keys}

    def proven(self, text: str, key: Key, of: Issuer) -> Mapping[str, Any]:
        return JwtDesk().proven(text, key, of)
