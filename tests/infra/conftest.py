"""Templates of all environments, synthesized once from a stub of the package: no network, no account, no build.

The CDK's Python library runs on Node. Without Node these tests are left out, except on CI, which must have it.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from infra.asset import Asset

if TYPE_CHECKING:
    import aws_cdk as cdk
    from aws_cdk.assertions import Template

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "18,20")
_LEFT_OUT = shutil.which("node") is None and not os.environ.get("CI")
if _LEFT_OUT:
    collect_ignore_glob = ["test_*.py"]

ENVIRONMENTS = ("dev", "staging", "prod")

type Stacks = dict[str, cdk.Stack]


def pytest_report_header() -> str:
    return "tests/infra: left out, there is no Node here" if _LEFT_OUT else ""


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Asset:
    directory = tmp_path_factory.mktemp("package")
    (directory / "stub.py").write_text("", encoding="utf-8")
    return Asset(directory)


def _stacks(package: Asset, context: dict[str, str] | None = None) -> Stacks:
    from infra.app import build_app  # here, because it starts Node

    app = build_app(package=package, context=context)
    return {name: app.node.find_child(f"tickwork-{name}") for name in ENVIRONMENTS}  # type: ignore[misc]


@pytest.fixture(scope="session")
def templates(package: Asset) -> dict[str, Template]:
    from aws_cdk.assertions import Template

    return {name: Template.from_stack(stack) for name, stack in _stacks(package).items()}


@pytest.fixture(scope="session")
def local(package: Asset) -> Template:
    from aws_cdk.assertions import Template

    return Template.from_stack(_stacks(package, {"local": "true"})["dev"])


@pytest.fixture(params=ENVIRONMENTS)
def template(request: pytest.FixtureRequest, templates: dict[str, Template]) -> Template:
    return templates[request.param]


@pytest.fixture(scope="session")
def prod(templates: dict[str, Template]) -> Template:
    return templates["prod"]
