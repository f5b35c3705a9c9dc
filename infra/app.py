"""The CDK app. `cdk synth` makes the stacks of every environment; `-c env=dev` makes one.

Context: `env` (dev, staging, prod), `local` (true: for an endpoint on this machine instead of AWS),
`first` (true: the first deployment of an environment that keeps its data, see docs/deploy.md). Needs no account
and no network: the stacks are not bound to an account or a region, and nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk

from infra import asset
from infra.asset import Asset
from infra.stack import TickworkStack
from tickwork.settings import ENVIRONMENTS, Environment


def build_app(*, context: Mapping[str, str] | None = None, package: Asset | None = None) -> cdk.App:
    """The app with its stacks. `context` adds to that of the command line; `package` is built when not given."""
    app = cdk.App(analytics_reporting=False, context=dict(context or {}))
    local, first = (_is_set(app, name) for name in ("local", "first"))
    package = package or asset.ensure(local=local)
    for environment in _wanted(app.node.try_get_context("env")):
        TickworkStack(
            app,
            f"tickwork-{environment.name}",
            environment=environment,
            package=package,
            first=first,
            local=local,
        )
    return app


def _is_set(app: cdk.App, name: str) -> bool:
    return str(app.node.try_get_context(name) or "false").lower() == "true"


def _wanted(name: str | None) -> list[Environment]:
    if name is None:
        return list(ENVIRONMENTS.values())
    if name not in ENVIRONMENTS:
        raise SystemExit(f"there is no environment {name!r}: use -c env={'|'.join(ENVIRONMENTS)}")
    return [ENVIRONMENTS[name]]


if __name__ == "__main__":
    build_app().synth()
