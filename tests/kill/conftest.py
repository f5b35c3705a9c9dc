"""Skips the kill tests where their needs are not met: PostgreSQL's programs and psycopg."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import postgres

if TYPE_CHECKING:
    from tests.kill.world import Book

try:
    import psycopg
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:
    if postgres.programs() is None:
        collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def book() -> Iterator[Book]:
    with postgres.cluster(connections_max=200) as dsn:
        from tests.kill.world import TABLES, Book
        from tickwork.worker.fencing import POSTGRES_TABLE

        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLES)
            connection.execute(POSTGRES_TABLE)
        yield Book(dsn)
