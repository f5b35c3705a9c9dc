"""Settings: what a deployed function reads from its environment, and what each environment is made of.

The only module that knows the names of environment variables; infra renders the same model into the functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from tickwork.core.access.actors import parse_rules
from tickwork.core.access.issuers import parse_issuer
from tickwork.core.errors import TickworkError
from tickwork.core.ledger.cells import parse_cells
from tickwork.core.ledger.queues import LAMBDA_TIMEOUT_S_MAX
from tickwork.ports import PUSH_POOL, Layout

EVERY_PRINCIPAL = "*=>platform/platform"
"""Who may call the API at all may do everything: IAM alone decides, as before there were teams."""

# Plain dataclasses, not pydantic models: every function reads them in its cold start, and most need no pydantic else.

_PATTERNS = {
    "prefix": re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"),
    "cell": re.compile(r"[a-z0-9-]{1,20}"),
    "pools": re.compile(r"[a-z0-9-]+(,[a-z0-9-]+)*"),
    "kms_key_arn": re.compile(r"(?:arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,60})?"),
}
_RANGES = {
    "shards": (1, 9_999),
    "slices": (1, 1_024),
    "shards_before": (0, 9_999),
    "retention_days": (1, 400),
    "audit_days": (1, 3_650),
    "slice_capacity_per_s": (1, 100_000),
    "cell_dispatch_per_s": (0, 10_000_000),
    "long_poll_max_s": (1, 20),
    "log_one_in": (1, 10_000),
}
_FLAGS = {"push_private", "require_certificates"}
_WORDS = {"true": True, "1": True, "false": False, "0": False}


class BadSetting(TickworkError):
    """A setting that this version cannot run with: the process must not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every process of one environment must agree on."""

    prefix: str = "tickwork-dev"
    """Begins the name of every table and queue."""
    cell: str = "main"
    cells: str = ""
    """Cells beside that one, as `name:shards/slices,...`."""
    shards: int = 4
    slices: int = 2
    shards_before: int = 0
    """The number of shards before the last change of it, until the old layout's items have ended."""
    pools: str = "default"
    retention_days: int = 30
    audit_days: int = 400
    push_private: bool = False
    """Pushes may reach private addresses: for one's own machine, never for a deployed environment."""
    require_certificates: bool = False
    """Jobs with side effects are registered only with the certificate of `tickwork verify`."""
    slice_capacity_per_s: int = 500
    cell_dispatch_per_s: int = 0
    """Runs in a second: that a slice is built to dispatch (a fifth for what was missed), and a cell may (0: all)."""
    long_poll_max_s: int = 5
    """How long a lease over HTTP may wait for its first run, whatever was asked for: it holds a function meanwhile."""
    log_one_in: int = 1
    """Of the windows that went well, one in so many has a line in the log. What failed, was slow or late always has."""
    principals: str = EVERY_PRINCIPAL
    oidc: str = ""
    """Which IAM callers, and whose tokens, act for which team: see `parse_rules`, `parse_issuer` in `core.access`."""
    kms_key_arn: str = ""
    """The key of KMS, by its ARN, with which what is stored and queued is encrypted. Empty: with AWS's own."""

    def __post_init__(self) -> None:
        for name, pattern in _PATTERNS.items():
            if not pattern.fullmatch(getattr(self, name)):
                raise BadSetting(f"{_variable(name)} is {getattr(self, name)!r}: it does not match {pattern.pattern}")
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise BadSetting(f"{_variable(name)} is {getattr(self, name)}: it must be {least} to {most}")
        for name, parse in (("principals", parse_rules), ("oidc", parse_issuer), ("cells", parse_cells)):
            try:
                parse(getattr(self, name))
            except ValueError as error:
                raise BadSetting(f"{_variable(name)}: {error}") from None

    def with_pools(self, names: Iterable[str]) -> Self:
        return replace(self, pools=",".join(names))

    def layout(self) -> Layout:
        return Layout(
            cell=self.cell,
            shards=self.shards,
            slices=self.slices,
            shards_before=self.shards_before,
            pools=tuple(self.pools.split(",")),
            retention_s=self.retention_days * 86_400,
            audit_s=self.audit_days * 86_400,
            push_private=self.push_private,
            require_certificates=self.require_certificates,
            slice_capacity_per_s=self.slice_capacity_per_s,
            cell_dispatch_per_s=self.cell_dispatch_per_s,
            long_poll_max_s=self.long_poll_max_s,
            log_one_in=self.log_one_in,
            others=parse_cells(self.cells, self.cell),
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read TICKWORK_PREFIX, TICKWORK_SHARDS, ...; a variable that is not there keeps its default."""
        return cls(
            **{f.name: _read(f.name, environ[key]) for f in fields(cls) if (key := _variable(f.name)) in environ}
        )

    def to_environ(self) -> dict[str, str]:
        return {_variable(f.name): str(getattr(self, f.name)) for f in fields(self)}


def _read(name: str, text: str) -> Any:
    try:
        if name in _RANGES:
            return int(text)
        return _WORDS[text.lower()] if name in _FLAGS else text
    except (ValueError, KeyError):
        raise BadSetting(f"{_variable(name)} is {text!r}: it cannot be read") from None


@dataclass(frozen=True, slots=True)
class PushSecrets:
    """The master secrets that pushes are signed with, the newest first (TICKWORK_PUSH_SECRETS, comma-separated).
    Apart from `Settings`, so that only the function that pushes ever gets them."""

    secrets: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.secrets) <= SECRETS_MAX:
            raise BadSetting(f"TICKWORK_PUSH_SECRETS must hold 1 to {SECRETS_MAX} secrets")
        if any(len(secret) < SECRET_CHARS_MIN for secret in self.secrets):
            raise BadSetting(f"TICKWORK_PUSH_SECRETS: each secret needs {SECRET_CHARS_MIN} characters or more")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        return cls.from_text(environ.get("TICKWORK_PUSH_SECRETS", ""))

    @classmethod
    def from_text(cls, text: str) -> Self:
        return cls(tuple(secret.strip() for secret in text.split(",") if secret.strip()))


SECRETS_MAX = 4
SECRET_CHARS_MIN = 32
PUSH_SECRETS_AT = "TICKWORK_PUSH_SECRETS_ARN"
"""The variable that names the stored secret whose text is that of TICKWORK_PUSH_SECRETS."""


def push_secrets_arn(environ: Mapping[str, str] = os.environ) -> str:
    if not (arn := environ.get(PUSH_SECRETS_AT, "")):
        raise BadSetting(f"{PUSH_SECRETS_AT} is not set: it names the secret that pushes are signed with")
    return arn


def _variable(field: str) -> str:
    return f"TICKWORK_{field.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One environment that `cdk deploy` can make. Differences between environments are here and nowhere else."""

    name: str
    """Its names begin with `tickwork-<name>`: one of each in an account and region."""
    shards: int
    shards_before: int = 0
    """The old number of shards, from a change of it until the last timer of the old layout has ended."""
    slices: int
    pools: tuple[str, ...]
    lambda_pools: Mapping[str, int] = field(default_factory=dict)
    """The pools whose worker is a Lambda function, with its timeout in seconds: messages are hidden as long."""
    retention_days: int
    keep_data: bool
    """Tables and queues survive the deletion of their stack, and tables refuse to be deleted."""
    log_retention_days: Literal[7, 30, 90]
    cells: str = ""
    scanner_concurrency: int
    """Scanners at a time: at least one for each slice of each cell."""
    reserved: Mapping[str, int]
    """Concurrent executions that are kept for a function, and are its most. Otherwise some 900 idle long polls, each
    holding one of the API's, would leave the ticker none. Two for what a clock wakes: one that hangs until its timeout,
    and its successor. The API's bound leaves something to pushes, and to whatever else the account runs. It all comes
    out of the account's limit, of which 100 must stay unreserved. A new account's may be 10: reserve nothing there."""
    alarms: Literal["few", "all"]
    """`few`: of failures of the whole. The others are of lateness, of pushes, of single pools and of teams."""
    pusher_concurrency: int
    """Pushes at a time. A slow target holds a pusher for 10 s each, so that they must not take the account's limit."""
    alarm_after_lag_s: int
    """The platform is paged when fire lag stays above this."""
    alarm_after_ready_s: int = 1_800
    """A team is told when the oldest message of its pool is older. SQS counts those under work too: longer than the
    longest job, and than the 240 s that a message may be sent ahead of its time."""
    api_requests_per_s: int
    api_requests_burst: int
    """What the HTTP API lets through before it answers 429, of signed requests."""
    key_requests_per_s: int = 50
    """The same of the door for keys, where anybody may knock: what a flood of it can cost is bounded by this."""
    audit_days: int = 400
    slice_capacity_per_s: int = 500
    cell_dispatch_per_s: int = 0
    log_one_in: int = 1
    require_certificates: bool = False
    principals: str = EVERY_PRINCIPAL
    oidc: str = ""
    kms_key_arn: str = ""
    """These eight, and `cells`: see `Settings`."""

    def __post_init__(self) -> None:
        if PUSH_POOL not in self.pools:
            raise BadSetting(f"pools are {', '.join(self.pools)}: add {PUSH_POOL!r}, the pusher's")
        slices = self.slices + sum(cell.slices for cell in parse_cells(self.cells))
        if self.scanner_concurrency < max(slices, self.reserved.get("scanner", 0)):
            raise BadSetting("scanner_concurrency must be at least slices, and what is reserved for the scanner")
        for pool, timeout_s in self.lambda_pools.items():
            if pool not in self.pools or pool == PUSH_POOL:
                raise BadSetting(f"lambda_pools names {pool}: it is none of the pools of {self.name} that take workers")
            if not 1 <= timeout_s <= LAMBDA_TIMEOUT_S_MAX:
                raise BadSetting(f"lambda_pools: {pool} has {timeout_s} s; a function has 1 to {LAMBDA_TIMEOUT_S_MAX}")
        self.settings().layout()

    def settings(self) -> Settings:
        own = {field.name for field in fields(self)} - {"pools"}
        same = {field.name: getattr(self, field.name) for field in fields(Settings) if field.name in own}
        return Settings(prefix=f"tickwork-{self.name}", pools=",".join(self.pools), **same)


ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment(
            name="dev",
            shards=4,
            slices=2,
            pools=("default", "functions", "payments", PUSH_POOL),
            lambda_pools={"functions": 60},
            retention_days=7,
            keep_data=False,
            log_retention_days=7,
            scanner_concurrency=4,
            reserved={},
            alarms="few",
            pusher_concurrency=4,
            alarm_after_lag_s=60,
            api_requests_per_s=50,
            api_requests_burst=100,
        ),
        Environment(
            name="staging",
            shards=64,
            slices=8,
            pools=("default", "payments", PUSH_POOL),
            retention_days=30,
            keep_data=False,
            log_retention_days=30,
            log_one_in=10,
            scanner_concurrency=16,
            reserved={"ticker": 2, "reconciler": 2, "watchdog": 2, "scanner": 16, "api": 100, "authorizer": 10},
            alarms="all",
            pusher_concurrency=16,
            alarm_after_lag_s=30,
            api_requests_per_s=200,
            api_requests_burst=400,
        ),
        Environment(
            name="prod",
            shards=64,
            slices=16,
            pools=("default", "payments", PUSH_POOL),
            retention_days=90,
            keep_data=True,
            log_retention_days=90,
            log_one_in=100,
            scanner_concurrency=48,
            reserved={"ticker": 2, "reconciler": 2, "watchdog": 2, "scanner": 48, "api": 400, "authorizer": 20},
            alarms="all",
            pusher_concurrency=100,
            alarm_after_lag_s=10,
            api_requests_per_s=1_000,
            api_requests_burst=2_000,
            key_requests_per_s=500,
        ),
    )
}
