"""What the kill tests share: the jobs' book in PostgreSQL, and a machine whose deliveries are doubled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.machine import Machine
from tickwork.local.processes import Child

CONCURRENCY = 8
LEASE_S = 30
TABLES = """
CREATE TABLE begun (run_id text, attempt int, token bigint, pid int);
CREATE TABLE booked (run_id text, token bigint);
CREATE TABLE spared (run_id text, token bigint);
CREATE TABLE ended (run_id text, attempt int, how text);
"""
WORKER = Path(__file__).with_name("booking_worker.py")


class Book:
    """What the jobs wrote."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def rows(self, query: str, *parameters: object) -> list[Any]:
        with psycopg.connect(self.dsn) as connection:
            return list(connection.execute(query, parameters).fetchall())

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])


@contextmanager
def machine_with(
    folder: Path, book: Book, workers: int, api_url: str | None = None
) -> Iterator[tuple[Machine, list[Child]]]:
    with Machine(folder) as machine:
        api, windows, _ = machine.children
        environ = dict(windows.environ) | {"KILL_DSN": book.dsn}
        windows_twice = Child("windows", (), environ, windows.log, module="tests.kill.doubling_windows")
        arguments = ("worker", f"{WORKER}:app", "--pool", "payments", "--concurrency", str(CONCURRENCY))
        told = environ | ({"TICKWORK_API_URL": api_url} if api_url else {})
        team = [Child(f"worker-{i}", arguments, told, folder / f"worker-{i}.log") for i in range(workers)]
        machine.children = [api, windows_twice, *team]
        machine.start()
        yield machine, team
