"""A worker that knows HTTP and nothing else: it leases runs, notes when each begins and ends, and completes it.

    python lease_worker.py API POOL DATABASE MAX WORK_SECONDS

With WORK_SECONDS 0 it takes runs once and never ends them: it is there to be killed.
"""

import json
import sqlite3
import sys
import time
import urllib.request
from contextlib import closing

API, POOL, DATABASE, MAX, WORK_S = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])


def post(path: str, body: object) -> list[dict]:
    request = urllib.request.Request(API + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)["runs"]


def note(sql: str, *values: object) -> None:
    with closing(sqlite3.connect(DATABASE, timeout=30)) as work, work:
        work.execute(
            "CREATE TABLE IF NOT EXISTS work (run_id TEXT, attempt INTEGER, worker TEXT, began REAL, ended REAL)"
        )
        work.execute(sql, values)


while True:
    leased = post(f"/pools/{POOL}:lease", {"worker": f"max-{MAX}", "max": MAX, "lease_s": 30, "wait_s": 2})
    for run in leased:
        named = (run["run_id"], run["attempt"])
        note("INSERT INTO work VALUES (?, ?, ?, ?, NULL)", *named, f"max-{MAX}", time.time())
        if WORK_S:
            time.sleep(WORK_S)
            note("UPDATE work SET ended = ? WHERE run_id = ? AND attempt = ?", time.time(), *named)
            entry = {name: run[name] for name in ("ref", "token", "receipt")} | {"outcome": "succeeded"}
            post("/runs:complete", {"runs": [entry]})
    while leased and not WORK_S:
        time.sleep(60)
