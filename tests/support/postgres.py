"""A PostgreSQL cluster of its own for a test: made in a folder, bound to 127.0.0.1, gone afterwards.

Needs the server's programs (Debian: the package `postgresql`) and psycopg (`requirements/postgres.lock`).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.machine import free_port

STARTS_WITHIN_S = "30"


def programs() -> Path | None:
    """Where initdb and pg_ctl are: Debian keeps them out of the PATH."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    place = Path(found) if found else debian[-1] if debian else None
    return place.resolve().parent if place else None


@contextmanager
def cluster(connections_max: int = 100) -> Iterator[str]:
    """The connection string of a running, empty server. Its durability is off: a test's data may die with it."""
    place = programs()
    assert place is not None, "PostgreSQL is not installed"
    with tempfile.TemporaryDirectory(prefix="tickwork-pg-", dir="/tmp") as folder:
        data, port = Path(folder) / "data", free_port()
        account = _give_away(Path(folder))
        _run(account, place / "initdb", "-D", data, "-U", "tickwork", "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        options += f" -c max_connections={connections_max} -c shared_buffers=32MB"
        log = Path(folder) / "log"
        _run(account, place / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "-t", STARTS_WITHIN_S, "start")
        try:
            yield f"host=127.0.0.1 port={port} user=tickwork dbname=postgres"
        finally:
            _run(account, place / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _give_away(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root: then it runs as the account its package made."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam("postgres")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return account.pw_name


def _run(account: str | None, *command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        user=account,
        cwd="/tmp",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if command[-1] != "start" else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, (done.stdout or b"").decode(errors="replace")
