"""A smaller storm over processes and the local endpoint: `python -m benchmarks.quotas --local`.

Each process is what an API's is: ports over AWS's clients, an own memory of what it has counted. They begin on the same
second. What is counted is what they were answered, and what stands in the table of timers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.fakes import KeptSignals

from benchmarks.quotas import create
from tickwork.aws.provision import create_all
from tickwork.aws.wiring import aws_ports, dynamodb_client, sqs_client
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.teams import Quotas, TeamContent
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.access import teams
from tickwork.local.endpoint import Endpoint, client_environ, default_python
from tickwork.ports import Ports
from tickwork.settings import Settings

QUOTA, RATE, SECONDS, PROCESSES = 10, 100, 30, 3
OTHERS_RATE = 6
LATE_S = 5
"""For the processes to start."""


def main(port: int = 0) -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "process":
        _run(*sys.argv[2:])
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Endpoint(python=default_python(), log=Path(folder) / "log", port=port or None) as endpoint,
    ):
        os.environ.update(client_environ(endpoint.port))
        create_all(dynamodb_client(endpoint.url), sqs_client(endpoint.url), Settings())
        ports = _ports(endpoint.url)
        for team, bound in (("payments", QUOTA), ("shop", 0)):
            teams.put_team(ports, team, TeamContent(contact="ann", quotas=Quotas(creates_per_s=bound)), None, LOCAL)
        begin_s = int(time.time()) + LATE_S
        module = [sys.executable, "-m", "benchmarks.quotas_local", "process", endpoint.url, str(begin_s)]
        processes = [subprocess.Popen(module, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
        told = [process.communicate()[0].split() for process in processes]
        made, refused, others, late = (sum(int(one[place]) for one in told) for place in range(4))
        stored = _stored(ports)
    print(f"\nOn the local endpoint, {SECONDS} s: {RATE} creates/s of {PROCESSES} processes against a quota of {QUOTA}")
    print(
        f"accepted {made} ({made / (QUOTA * SECONDS):.1%} of the quota), refused {refused}, stored {stored['payments']}"
    )
    print(f"another team's: {others} created, {stored['shop']} stored; {late} creates came a second late or more")


def _ports(url: str) -> Ports:
    return aws_ports(Settings(), KeptSignals(), url)


def _stored(ports: Ports) -> dict[str, int]:
    found = {"payments": 0, "shop": 0}
    after = None
    while True:
        items, after = ports.store.scan(TIMERS, limit=500, after=after)
        for item in items:
            found[str(item["sk"]).split("#")[1]] += 1
        if after is None:
            return found


def _run(url: str, begin_s: str) -> None:
    """The creates of one process, each at its instant: how many were made, refused, another team's, and late."""
    ports, begin = _ports(url), float(begin_s)
    due = [(number * PROCESSES / RATE, "payments") for number in range(RATE * SECONDS // PROCESSES)]
    due += [(number * PROCESSES / OTHERS_RATE, "shop") for number in range(OTHERS_RATE * SECONDS // PROCESSES)]
    made = refused = others = late = 0
    for at_s, team in sorted(due):
        wait_s = begin + at_s - time.time()
        late += wait_s < -1
        time.sleep(max(0.0, wait_s))
        created = create(ports, team)
        if team == "shop":
            others += created
        else:
            made, refused = made + created, refused + 1 - created
    print(made, refused, others, late)


if __name__ == "__main__":
    main()
