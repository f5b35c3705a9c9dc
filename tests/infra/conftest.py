"""Templates of all environments, synthesized once from a stub of the package: no network, no account, no build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "18,20")

import aws_cdk as cdk
from aws_cdk.assertions import Template
from infra.app import build_app
from infra.asset import Asset

ENVIRONMENTS = ("dev", "staging", "prod")

type Stacks = dict[str, cdk.Stack]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Asset:
    directory = tmp_path_factory.mktemp("package")
    (directory / "stub.py").write_text("", encoding="utf-8")
    return Asset(directory)


def _stacks(app: cdk.App) -> Stacks:
    return {name: app.node.find_child(f"tickwork-{name}") for name in ENVIRONMENTS}  # type: ignore[misc]


@pytest.fixture(scope="session")
def stacks(package: Asset) -> Stacks:
    return _stacks(build_app(package=package))


@pytest.fixture(scope="session")
def templates(stacks: Stacks) -> dict[str, Template]:
    return {name: Template.from_stack(stack) for name, stack in stacks.items()}


@pytest.fixture(scope="session")
def local(package: Asset) -> Template:
    app = build_app(package=package, context={"local": "true"})
    return Template.from_stack(_stacks(app)["dev"])


@pytest.fixture(params=ENVIRONMENTS)
def template(request: pytest.FixtureRequest, templates: dict[str, Template]) -> Template:
    return templates[request.param]


@pytest.fixture(scope="session")
def prod(templates: dict[str, Template]) -> Template:
    return templates["prod"]


type Properties = dict[str, Any]


@pytest.fixture(scope="session")
def properties() -> Callable[[Template, str], Iterator[Properties]]:
    """The properties of every resource of a type."""

    def of_type(template: Template, kind: str) -> Iterator[Properties]:
        for resource in template.find_resources(kind).values():
            yield resource["Properties"]

    return of_type
