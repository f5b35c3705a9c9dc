from __future__ import annotations

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.ports import Ports


@pytest.fixture
def ports() -> Ports:
    return fake_ports()


@pytest.fixture
def api(ports: Ports) -> ApiUnderTest:
    return ApiUnderTest(ports)
