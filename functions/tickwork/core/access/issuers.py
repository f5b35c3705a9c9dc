"""Whose tokens are taken, and what their claims mean here: the rules from claims to teams and roles.

Owns the setting's language and what a token's claims make of its bearer. Refuses to know signatures and the network.
Protects tenant-wall: a rule that names its team by the claim reaches every team but the platform's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from tickwork.core.access.actors import PLATFORM_TEAM, ROLES, Actor, Role, fault_of, together
from tickwork.core.errors import Forbidden

_SLUG = r"[a-z0-9][a-z0-9._-]{0,62}"
_TEAM = "{team}"
_RULE = re.compile(
    r"(?P<claim>[A-Za-z0-9_.:/-]{1,100})=(?P<value>\S{1,200}?)=>"
    rf"(?P<team>{_SLUG}|\{{team\}})/(?P<role>[a-z]+)(?::(?P<pools>[a-z0-9-]+(?:\+[a-z0-9-]+)*))?",
    re.ASCII,
)
_OPTIONS = ("issuer", "audience", "keys", "name")
CHARS_MAX = 2_500
"""Of the whole setting: the variables of a function share four kilobytes."""
STANDINGS_MAX = 100
"""Of one token: who is in more groups that mean something here is told so, rather than given some of them."""
TOLD_MAX = 12
"""Rules, and values of a claim, in a refusal."""
NAME_CHARS_MAX = 64
"""Of a bearer, in what he signs: `by` has eighty."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """That whoever has a value of a claim acts for a team in a role. The value may end in `*`, or have `{team}` in it,
    which is then the team."""

    claim: str
    value: str
    team: str
    role: Role
    pools: tuple[str, ...] = ()

    def team_by(self, value: str) -> str | None:
        """The team that a value of the claim means; None when it means none."""
        if _TEAM in self.value:
            before, _, after = self.value.partition(_TEAM)
            found = re.fullmatch(f"{re.escape(before)}({_SLUG}){re.escape(after)}", value, re.ASCII)
            # Else whoever may name a group may make himself the platform.
            return found[1] if found is not None and found[1] != PLATFORM_TEAM else None
        matches = value.startswith(self.value[:-1]) if self.value.endswith("*") else value == self.value
        return self.team if matches else None

    def __str__(self) -> str:
        return f"{self.claim}={self.value}"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens are taken, for whom they must be made, and what they mean."""

    url: str
    audience: str
    rules: tuple[ClaimRule, ...]
    keys_url: str = ""
    """Where its keys are; empty: where its discovery document says."""
    name_claim: str = "sub"
    """By which its people are called in records; `sub` when a token lacks it."""


# --- the setting --------------------------------------------------------------------------------------------------


def parse_issuer(text: str) -> Issuer | None:
    """The issuer of a setting, words separated by blanks: `issuer=https://login.example.org audience=tickwork
    groups=payments-owners=>payments/owner`. None of an empty one; ValueError naming what cannot be meant."""
    if len(text) > CHARS_MAX:
        raise ValueError(f"it has {len(text)} characters, and {CHARS_MAX} at most: use rules with {{team}} in them")
    options: dict[str, str] = {}
    rules = []
    for word in text.split():
        if "=>" in word:
            rules.append(_rule(word))
            continue
        name, _, value = word.partition("=")
        if name not in _OPTIONS or not value or name in options:
            raise ValueError(f"{word[:120]!r} is neither a rule nor one of {', '.join(_OPTIONS)}, given once")
        options[name] = value
    if not options and not rules:
        return None
    return _issuer(options, tuple(rules))


def _issuer(options: Mapping[str, str], rules: tuple[ClaimRule, ...]) -> Issuer:
    for name in ("issuer", "audience"):
        if name not in options:
            raise ValueError(f"it does not say {name}=...: a token must be by somebody, and for us")
    if not rules:
        raise ValueError("it has no rule: write claim=value=>team/role")
    for name in ("issuer", "keys"):
        if name in options and not is_safe_url(options[name]):
            raise ValueError(f"{name} is {options[name][:120]!r}: it must begin with https://")
    keys_url, name_claim = options.get("keys", ""), options.get("name", "sub")
    return Issuer(options["issuer"], options["audience"], rules, keys_url, name_claim)


def is_safe_url(url: str) -> bool:
    """Whether what is read there is what its owner says. Without TLS on this machine alone."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        has_port = parts.port != 0
    except ValueError:
        return False
    has_more = bool(parts.username or parts.password or parts.fragment)
    is_private = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    return bool(host) and has_port and is_private and not has_more


def _rule(word: str) -> ClaimRule:
    found = _RULE.fullmatch(word)
    if found is None or found["role"] not in ROLES:
        raise ValueError(f"{word[:120]!r} is no rule: write claim=value=>team/role, a blank in the value as %20")
    value, team = unquote(found["value"]), found["team"]
    role: Role = next(role for role in ROLES if role == found["role"])
    pools = tuple(found["pools"].split("+")) if found["pools"] else ()
    if (team == _TEAM) != (_TEAM in value) or value.count(_TEAM) > 1:
        raise ValueError(f"{word[:120]!r}: {_TEAM} stands once in the value and is the team, or in neither")
    if "*" in value[:-1] or (_TEAM in value and value.endswith("*")):
        raise ValueError(f"{word[:120]!r}: a * stands at the end, and not beside {_TEAM}")
    if fault := fault_of("any" if team == _TEAM else team, role, pools):
        raise ValueError(f"{word[:120]!r}: {fault}")
    return ClaimRule(found["claim"], value, team, role, pools)


# --- claims -------------------------------------------------------------------------------------------------------


def actor_of_claims(claims: Mapping[str, Any], issuer: Issuer) -> Actor:
    """All that the bearer of proven claims is, by every rule that matches. Forbidden, saying what was seen and what was
    tried, when none does."""
    name = _name(claims, issuer)
    standings = list(dict.fromkeys(_standings(name, claims, issuer.rules)))
    if not standings:
        raise Forbidden(
            f"the token of {name} is mapped to no team; seen were {_seen(claims, issuer.rules)}; "
            f"the rules tried are {_told([str(rule) for rule in issuer.rules])}",
            remedy="have a rule added to the environment's TICKWORK_OIDC, or yourself to a group that is in one",
        )
    if len(standings) > STANDINGS_MAX:
        raise Forbidden(
            f"the token of {name} is mapped to {len(standings)} teams and roles; {STANDINGS_MAX} is the most",
            remedy="ask for a token with fewer groups, or write fewer rules",
        )
    return together(standings)


def _standings(name: str, claims: Mapping[str, Any], rules: Sequence[ClaimRule]) -> Iterator[Actor]:
    for rule in rules:
        for value in values_of_claim(claims, rule.claim):
            if (team := rule.team_by(value)) is not None:
                yield Actor(name, team, rule.role, rule.pools)


def values_of_claim(claims: Mapping[str, Any], claim: str) -> list[str]:
    """What a token says of a claim, as texts. A claim inside another one is named with a dot: `realm_access.roles`."""
    found: Any = claims.get(claim)
    if found is None and "." in claim:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str) and claim in ("scope", "scp"):
        return found.split()  # RFC 8693: a list, with blanks
    listed = found if isinstance(found, list) else [found]
    return [_text(one) for one in listed if isinstance(one, str | bool | int)]


def _text(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name(claims: Mapping[str, Any], issuer: Issuer) -> str:
    """`jwt:` and who it is, in one line that can be printed: it stands in records and logs."""
    said = (*values_of_claim(claims, issuer.name_claim), *values_of_claim(claims, "sub"))
    name = "".join(sign if sign.isprintable() else "?" for sign in next(iter(said), ""))
    return f"jwt:{name[:NAME_CHARS_MAX]}"


def _seen(claims: Mapping[str, Any], rules: Sequence[ClaimRule]) -> str:
    """What of the claims the rules ask for: no others, they are the bearer's own affair."""
    asked = dict.fromkeys(rule.claim for rule in rules)
    seen = [
        f"{claim} = {_told([repr(one) for one in values])}"
        for claim in asked
        if (values := values_of_claim(claims, claim))
    ]
    return "; ".join(seen) or f"none of the claims {', '.join(asked)}"


def _told(words: Sequence[str]) -> str:
    more = f", and {len(words) - TOLD_MAX} more" if len(words) > TOLD_MAX else ""
    return ", ".join(word[:80] for word in words[:TOLD_MAX]) + more
