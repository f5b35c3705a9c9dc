"""What will not get better ends a worker that leases over HTTP, with the reason; what may, does not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.worker_bench import HandClock
from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.worker.sources import LeaseSource


class Refusing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def post(self, *_: object, **__: object) -> Any:
        raise self._error


def source(error: Exception) -> LeaseSource:
    api: Any = Refusing(error)
    return LeaseSource(
        pool="p", worker="w", api=api, stopping=threading.Event(), clock=HandClock(), lease_s=60, wait_s=0
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_lease_that_is_refused_for_good_ends_the_worker_with_the_reason(status: int) -> None:
    error = ApiRefused(status, {"detail": "there is no pool 'p'"})
    with pytest.raises(ApiRefused, match="no pool"):
        source(error).take(1)


@pytest.mark.parametrize("error", [ApiRefused(409, {}), ApiRefused(412, {}), ApiUnreachable("503")])
def test_a_lease_that_may_be_had_later_is_asked_for_again(error: Exception) -> None:
    assert source(error).take(1) == []
