"""Who acts: a name, a team and a role, taken from what proves them and never from what a client says of itself.

Owns the roles and what a principal of AWS is mapped to. Refuses to know any route. Protects tenant-wall: an actor
reaches its own team's things and no others, unless its team is the platform's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from tickwork.core.errors import Forbidden

type Role = Literal["viewer", "worker", "operator", "owner", "platform"]
ROLES: tuple[Role, ...] = get_args(Role.__value__)

PLATFORM_TEAM = "platform"
"""The platform's own team. Whoever acts for it reaches every team's things, as far as his role goes; its calendars may
be named by all."""

ARN_CHARS_MAX = 800
"""No ARN of a caller is longer: a path has 512 characters at most, a name 64. One that is names nobody."""
BY_CHARS_MAX = 80
"""As much as stood in `by` before it was the actor: a pause is a part of its job's item."""


@dataclass(frozen=True, slots=True)
class Actor:
    """`name` says how it was proven: `key:team:id`, `iam:Role/session`, `jwt:subject`, or `local`."""

    name: str
    team: str
    role: Role
    pools: tuple[str, ...] = ()
    """Of a worker: the pools it may lease from."""
    beside: tuple[Actor, ...] = ()
    """What the same caller is in further teams, or in another role. A request that names its team is made by what he is
    there; which that is, the wall settles (`api/wall.py`), so that a flow sees one team and one role."""

    @property
    def standings(self) -> tuple[Actor, ...]:
        """Each that the caller is, by itself."""
        return (replace(self, beside=()), *self.beside) if self.beside else (self,)

    @property
    def teams(self) -> frozenset[str]:
        return frozenset(one.team for one in self.standings)

    def reaches(self, team: str) -> bool:
        return not self.teams.isdisjoint((team, PLATFORM_TEAM))

    @property
    def is_walled(self) -> bool:
        """Whether there are teams that it does not reach."""
        return PLATFORM_TEAM not in self.teams

    def signs(self, note: str | None) -> str:
        """Who did it, for the record, with what the client wrote there as a note: the actor always comes first."""
        signed = self.name if not note or note == self.name else f"{self.name} ({note})"
        return signed if len(signed) <= BY_CHARS_MAX else f"{signed[: BY_CHARS_MAX - 3]}..."


def together(standings: Sequence[Actor]) -> Actor:
    """The one caller who is all of these. In what is about none of his teams alone, his role is the least of them."""
    if len(standings) == 1:
        return standings[0]
    least, *others = sorted(standings, key=lambda one: ROLES.index(one.role))
    return replace(least, beside=tuple(others))


LOCAL = Actor("local", PLATFORM_TEAM, "platform")
"""Whoever can reach an open API on this machine's loopback interface."""


# --- principals of AWS ------------------------------------------------------------------------------------------

UNKNOWN_PRINCIPAL = "unknown"
_ARN_PARTS = 6
_RULE = re.compile(
    r"(?P<pattern>[A-Za-z0-9+=,.@_/:*-]{1,200})=>(?P<team>[a-z0-9][a-z0-9._-]{0,62})/(?P<role>[a-z]+)"
    r"(?::(?P<pools>[a-z0-9_-]+(?:\+[a-z0-9_-]+)*))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """That principals of a name act for a team in a role. The name may end in `*`."""

    pattern: str
    team: str
    role: Role
    pools: tuple[str, ...] = ()

    def matches(self, principal: str) -> bool:
        if self.pattern.endswith("*"):
            return principal.startswith(self.pattern[:-1])
        # A role's name stands for all its sessions.
        return self.pattern in (principal, principal.partition("/")[0])


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Rules as the setting has them, separated by blanks: `PaymentsDeploy=>payments/owner *=>platform/platform`.
    ValueError naming the one that cannot be read."""
    rules = []
    for word in text.split():
        found = _RULE.fullmatch(word)
        if found is None or found["role"] not in ROLES:
            raise ValueError(f"{word[:120]!r} is no rule: write Name=>team/role, or Name=>team/worker:pool+pool")
        role: Role = next(role for role in ROLES if role == found["role"])
        pools = tuple((found["pools"] or "").split("+")) if found["pools"] else ()
        if fault := fault_of(found["team"], role, pools):
            raise ValueError(f"{word[:120]!r}: {fault}")
        rules.append(Rule(found["pattern"], found["team"], role, pools))
    return tuple(rules)


def fault_of(team: str, role: Role, pools: Sequence[str]) -> str | None:
    """What is wrong with a team, a role and pools together; None when they fit."""
    if role == "platform" and team != PLATFORM_TEAM:
        return f"the role `platform` goes with the team `{PLATFORM_TEAM}`"
    if (role == "worker") != bool(pools):
        return "the role `worker` names its pools, and no other role does"
    return None


def principal_of(arn: str) -> str:
    """`Role/session` or `user` of a caller's ARN: what rules go by, and records say. Of any other kind of caller its
    kind as well: a federated user has whatever name the one gave him who signed him in, also that of a role.

    Paths are written by whoever makes a user, and may have colons: the sixth part is all that is left."""
    *_, resource = arn.split(":", _ARN_PARTS - 1) if len(arn) <= ARN_CHARS_MAX else [""]
    kind, _, name = resource.partition("/")
    if kind in ("user", "role"):  # its path is no part of its name
        return name.rpartition("/")[2] or UNKNOWN_PRINCIPAL
    if kind == "assumed-role" or not name:
        return name or resource or UNKNOWN_PRINCIPAL
    return f"{kind}:{name}"


def actor_of_principal(arn: str, rules: Sequence[Rule]) -> Actor:
    """The actor that an IAM caller is, by the first rule that matches. Forbidden, saying what was seen and what was
    tried, when none does."""
    principal = principal_of(arn) if arn else UNKNOWN_PRINCIPAL
    for rule in rules:
        if rule.matches(principal):
            return Actor(f"iam:{principal}", rule.team, rule.role, rule.pools)
    tried = ", ".join(rule.pattern for rule in rules) or "none"
    raise Forbidden(
        f"the principal {principal!r} is mapped to no team; the rules tried are: {tried}",
        remedy="have it added to the environment's TICKWORK_PRINCIPALS, or call with a principal that is there",
    )
