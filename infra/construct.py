"""The scheduler as a construct: what our own stacks are made of, and what another CDK app puts into one of its
own. Whatever differs between environments is a typed property of `Environment`; nothing here is edited for it.

    from infra import asset
    from infra.construct import Tickwork
    from tickwork.settings import Environment

    acme = Environment(name="acme", ...)
    scheduler = Tickwork(stack, "Scheduler", environment=acme, package=asset.ensure(local=False))
    scheduler.parts.access.workers["billing"].attach_to_role(role_of_my_workers)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.access import Access
from infra.alarms import Alarms
from infra.asset import Asset
from infra.functions import Functions
from infra.http_api import Api, KeyApi
from infra.key import key_of
from infra.queues import Queues
from infra.schedules import Schedules
from infra.secrets import PushSecret
from infra.tables import Tables
from tickwork.settings import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What whoever composes may ask for beside the environment.

    `alarm_topic`: where alarms go instead of a topic of their own; its policy is its owner's. `alarms_left_out`: names
    of alarms (docs/deploy.md) that are not made. `first`: a first deployment, whose tables CloudFormation may take
    away again should it fail. `local`: an endpoint on this machine, see docs/deploy.md."""

    alarm_topic: sns.ITopic | None = None
    alarms_left_out: Collection[str] = ()
    first: bool = False
    local: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What was made, to refer to and to grant by."""

    tables: Tables
    queues: Queues
    secret: secretsmanager.Secret
    functions: Functions
    api: Api
    key_api: KeyApi
    access: Access
    alarms: Alarms


_ASKED_FOR_NOTHING = Wishes()


def compose(scope: Construct, environment: Environment, package: Asset, wishes: Wishes = _ASKED_FOR_NOTHING) -> Parts:
    """All parts of an environment, directly in `scope`."""
    prefix, keep_data = environment.settings().prefix, environment.keep_data
    key = key_of(scope, environment)
    protect = keep_data and not wishes.first
    tables = Tables(scope, "Tables", prefix=prefix, keep_data=keep_data, protect=protect, key=key)
    queues = Queues(
        scope,
        "Queues",
        prefix=prefix,
        pools=environment.pools,
        lambda_pools=environment.lambda_pools,
        keep_data=keep_data,
        enforce_ssl=not wishes.local,
        key=key,
    )
    secret = PushSecret(scope, "PushSecret", prefix=prefix, keep_data=keep_data).secret
    functions = Functions(
        scope,
        "Functions",
        environment=environment,
        package=package,
        tables=tables,
        queues=queues,
        secret=secret,
        key=key,
    )
    api = Api(scope, "Api", environment=environment, function=functions.api.function, key=key)
    key_api = KeyApi(
        scope,
        "KeyApi",
        environment=environment,
        function=functions.api.function,
        authorizer=functions.authorizer.function,
        key=key,
    )
    Schedules(scope, "Schedules", prefix=prefix, functions=functions)
    access = Access(scope, "Access", prefix=prefix, api=api, queues=queues, key=key)
    alarms = Alarms(
        scope,
        "Alarms",
        environment=environment,
        functions=functions,
        queues=queues,
        api=api,
        key_api=key_api,
        local=wishes.local,
        topic=wishes.alarm_topic,
        left_out=wishes.alarms_left_out,
        key=key,
    )
    return Parts(tables, queues, secret, functions, api, key_api, access, alarms)


class Tickwork(Construct):
    """The scheduler inside somebody else's stack. Its names begin with `tickwork-<environment>`: one of each name in an
    account and region."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        package: Asset,
        wishes: Wishes = _ASKED_FOR_NOTHING,
    ) -> None:
        super().__init__(scope, construct_id)
        self.parts = compose(self, environment, package, wishes)
