from __future__ import annotations

import pytest
from tests.support.runs_world import World


@pytest.fixture
def world() -> World:
    return World()
