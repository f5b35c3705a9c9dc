"""The side effects of a job, as the harness of `tickwork verify` sees them: a multiset of texts.

Each observer says what is there now; the harness takes the difference. Observers that see an effect at the moment it
happens can end the attempt right after it (`after_effect`), as a kill -9 would.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

ROWS_MAX = 100_000
FILES_MAX = 10_000
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE"}


class Effects(Protocol):
    """Anything that can say what is there now."""

    def seen(self) -> Counter[str]: ...


class RecordedEffects:
    """Effects that test doubles record: `effects.record("email", to="a@b.example")`. Can crash after each of them."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self.after_effect: Callable[[], object] = lambda: None

    def record(self, kind: str, **facts: Any) -> None:
        self._seen[f"{kind} {json.dumps(facts, sort_keys=True, default=str)}"] += 1
        self.after_effect()

    def record_once(self, key: str, kind: str, **facts: Any) -> bool:
        """As a receiver that honours an idempotency key would: the second with one key changes nothing."""
        text = f"{kind} {json.dumps(facts | {'key': key}, sort_keys=True, default=str)}"
        if text in self._seen:
            return False
        self.record(kind, **facts | {"key": key})
        return True

    def seen(self) -> Counter[str]:
        return Counter(self._seen)


class SqliteEffects:
    """Every row of a database file, without the row numbers that SQLite itself gives out."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seen(self) -> Counter[str]:
        if not self._path.exists():
            return Counter()
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as found:
            tables = found.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return Counter(row for (table,) in tables for row in self._rows(found, table))

    def _rows(self, found: sqlite3.Connection, table: str) -> Iterator[str]:
        quoted = '"' + table.replace('"', '""') + '"'
        columns = [
            name
            for _, name, kind, _, _, key in found.execute(f"PRAGMA table_info({quoted})")
            if not (key and kind.upper() == "INTEGER")
        ]
        chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in columns) or "NULL"
        for row in found.execute(f"SELECT {chosen} FROM {quoted} LIMIT {ROWS_MAX}"):
            yield f"row of {table}: {dict(zip(columns, row, strict=False))}"


class FolderEffects:
    """Every file below a folder, by its name and content."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seen(self) -> Counter[str]:
        files = sorted(file for file in self._path.rglob("*") if file.is_file())[:FILES_MAX]
        return Counter(f"file {file.relative_to(self._path)}: {_digest(file)}" for file in files)


class HttpEffects:
    """Requests that change something, sent by this process through `http.client` (urllib, urllib3, requests, boto3).

    They are sent: point the job at a test system. Two with one Idempotency-Key are one effect.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self.after_effect: Callable[[], object] = lambda: None

    def seen(self) -> Counter[str]:
        return Counter(self._seen)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sees the requests that are made in here."""
        connection: Any = http.client.HTTPConnection
        original = {name: getattr(connection, name) for name in ("putrequest", "putheader", "getresponse")}
        watch = self

        def putrequest(self: Any, method: str, url: str, *arguments: Any, **options: Any) -> Any:
            self._tickwork_call = [method.upper(), f"{self.host}{url}", ""]
            return original["putrequest"](self, method, url, *arguments, **options)

        def putheader(self: Any, header: Any, *values: Any) -> Any:
            name = header.decode() if isinstance(header, bytes) else str(header)
            if name.lower() == "idempotency-key" and hasattr(self, "_tickwork_call"):
                self._tickwork_call[2] = str(values[0])
            return original["putheader"](self, header, *values)

        def getresponse(self: Any, *arguments: Any, **options: Any) -> Any:
            answer = original["getresponse"](self, *arguments, **options)
            watch._note(*getattr(self, "_tickwork_call", ("GET", "", "")))
            return answer

        patched = {"putrequest": putrequest, "putheader": putheader, "getresponse": getresponse}
        for name, function in patched.items():
            setattr(connection, name, function)
        try:
            yield
        finally:
            for name, function in original.items():
                setattr(connection, name, function)

    def _note(self, method: str, where: str, key: str) -> None:
        if method in _SAFE_METHODS:
            return
        text = f"{method} {where}" + (f" with key {key}" if key else "")
        if not (key and text in self._seen):
            self._seen[text] += 1
        self.after_effect()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
