"""The recipe INSERT ... ON CONFLICT (run_id) DO NOTHING on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import postgres
from tests.support.contexts import attempt
from tickwork.worker.fencing import POSTGRES_TABLE, postgres_once

psycopg = pytest.importorskip("psycopg", reason="needs requirements/postgres.lock")
pytestmark = pytest.mark.skipif(postgres.programs() is None, reason="needs PostgreSQL")


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with postgres.cluster() as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(POSTGRES_TABLE)
            connection.execute("CREATE TABLE effects (run_id text, token bigint)")
        yield dsn


def effect(connection: Any, ctx: Any) -> bool:
    with connection.cursor() as cursor:
        if not postgres_once(cursor, ctx):
            return False
        cursor.execute("INSERT INTO effects VALUES (%s, %s)", (ctx.run_id, ctx.token))
        return True


def effects(dsn: str, run_id: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT token FROM effects WHERE run_id = %s", (run_id,)).fetchall()
    return [token for (token,) in rows]


def test_the_second_attempt_finds_it_done(dsn: str) -> None:
    for token, first in ((1, True), (2, False)):
        with psycopg.connect(dsn) as connection:
            assert effect(connection, attempt(token, run="again")) is first
    assert effects(dsn, "again") == [1]


def test_a_crash_before_the_commit_leaves_neither_mark_nor_effect(dsn: str) -> None:
    connection = psycopg.connect(dsn)
    assert effect(connection, attempt(1, run="crash"))
    connection.close()  # no commit: what a killed process leaves
    with psycopg.connect(dsn) as connection:
        assert effect(connection, attempt(2, run="crash"))
    assert effects(dsn, "crash") == [2]


def test_of_two_attempts_at_once_the_second_waits_and_finds_it_done(dsn: str) -> None:
    outcome: list[bool] = []

    def second() -> None:
        with psycopg.connect(dsn) as connection:
            outcome.append(effect(connection, attempt(2, run="both")))

    with psycopg.connect(dsn) as first:
        assert effect(first, attempt(1, run="both"))
        thread = threading.Thread(target=second)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with psycopg.connect(dsn, autocommit=True) as look:
            for _ in range(10_000):
                if look.execute(waiting).fetchone()[0]:
                    break
        assert outcome == [], "it waits for the first one's end"
    thread.join(10)
    assert outcome == [False]
    assert effects(dsn, "both") == [1]
