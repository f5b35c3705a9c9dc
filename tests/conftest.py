"""How long a test may take: a minute (pyproject.toml), and longer where it runs processes, deploys, or searches."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMITS_S = {
    "conformance": 300,  # a worker that breaks a rule is waited for, scenario by scenario
    "docs": 300,
    "e2e": 1_800,  # the first test deploys the stacks
    "histories": 600,  # hundreds of seeds in a test
    "hostile": 300,
    "install": 600,  # packages are installed from the registry
    "infra": 300,  # the first test synthesizes
    "kill": 3_600,  # as many runs as are asked for
    "kill_run": 7_200,  # as often as is asked for
    "process": 300,
    "scenarios": 1_800,  # at full size, when that is asked for
}
"""By the folder of `tests`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            limit_s = LIMITS_S.get(item.path.relative_to(HERE).parts[0])
            if limit_s is not None and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(limit_s))
