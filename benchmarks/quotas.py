"""A storm of creates against a quota, over several processes of the API: `make quota-storm`.

In virtual time, over the production flows and the in-memory store: how many are accepted, what the counters are charged
and which of their keys the most in a second. With `--local` a smaller one beside it, in real time, over processes and
the local endpoint (`benchmarks/quotas_local.py`).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.support.fakes import FakeClock, fake_ports

from benchmarks.meter import units
from benchmarks.meter.places import key_item
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.teams import Quotas, TeamContent
from tickwork.core.errors import QuotaExceeded
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.core.ledger.tables import RESOURCES, TEAMS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Committed, Refused, Write
from tickwork.flows.access import teams
from tickwork.flows.runs import timers
from tickwork.flows.runs.admitting import let_in
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

COUNTERS = (RESOURCES.name, TEAMS.name)
"""Tables in which the counters are."""


class ChargedStore(MemoryStore):
    """The in-memory store, with what each key is charged in each second."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.by_key: Counter[tuple[str, str, int]] = Counter()
        """Write units by table, key and second: a refused write is charged like one that is not."""
        self.commits = 0

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        self.commits += 1
        before = [self.get(write.table, key_item(write)) for write in writes]
        result = super().commit(writes)
        for write, old in zip(writes, before, strict=True):
            size = max(units.plain_size(old), units.plain_size(self.get(write.table, key_item(write))))
            key = "|".join(write.table.key_of(key_item(write)))
            taken = units.sized_write_units(size, in_transaction=len(writes) > 1)
            self.by_key[write.table.name, key, self.clock.at_ms // SECOND_MS] += taken
        return result

    def charged(self, tables: Iterable[str]) -> int:
        """Write units of some tables, in all."""
        return sum(count for (table, _, _), count in self.by_key.items() if table in tables)

    @property
    def hottest(self) -> int:
        """Most write units that one key of a counter was charged in a second."""
        return max((count for (table, _, _), count in self.by_key.items() if table in COUNTERS), default=0)


class Site:
    """Several processes of the API over one store and one clock."""

    def __init__(self, processes: int, **quotas: int) -> None:
        self.clock = FakeClock()
        self.tables = ChargedStore(self.clock)
        first = fake_ports(self.tables, Layout(shards=4, slices=1))
        self.processes = [
            replace(fake_ports(self.tables, first.layout), clock=self.clock, ids=first.ids, sender=first.sender)
            for _ in range(processes)
        ]
        self.register("payments", **quotas)

    def register(self, team: str, **quotas: int) -> None:
        content = TeamContent(contact="ann", quotas=Quotas(**quotas))
        teams.put_team(self.processes[0], team, content, None, LOCAL)

    def create(self, process: int, team: str = "payments", count: int = 1) -> int:
        """How many of a request's timers were created. They fire in a day."""
        return create(self.processes[process], team, count)

    def passes_s(self, seconds: float) -> None:
        self.clock.at_ms += round(seconds * SECOND_MS)


def create(ports: Ports, team: str, count: int = 1) -> int:
    """As the route creates timers: asked of the quotas first, then written."""
    fire_at_ms = ports.clock.now_ms() + DAY_MS
    new = [NewTimer(team, fire_at_ms, Work("default", "h")) for _ in range(count)]
    let = [fate for fate in let_in(ports, new).fates if not isinstance(fate, QuotaExceeded)]
    return len(timers.create_timers(ports, let)) if let else 0


@dataclass
class Storm:
    """What became of one: creates by second, and what the counters were charged."""

    asked: int = 0
    accepted: Counter[int] = field(default_factory=Counter)
    others_asked: int = 0
    others_accepted: int = 0
    counter_units: int = 0
    hottest: int = 0
    timers: int = 0

    @property
    def total(self) -> int:
        return self.accepted.total()


def storm(*, quota: int, rate: int, seconds: int, processes: int, others_per_s: int = 20, seed: int = 1) -> Storm:
    """So many creates a second, at random instants and by random processes, beside another team's."""
    rng, found = Random(seed), Storm()
    site = Site(processes, creates_per_s=quota)
    site.register("shop")
    mark = site.tables.charged(COUNTERS)
    begin_ms = site.clock.at_ms
    due = [(rng.random() * seconds, "payments") for _ in range(rate * seconds)]
    due += [(rng.random() * seconds, "shop") for _ in range(others_per_s * seconds)]
    for at_s, team in sorted(due):
        site.clock.at_ms = begin_ms + round(at_s * SECOND_MS)
        made = site.create(rng.randrange(processes), team)
        if team == "payments":
            found.asked += 1
            found.accepted[int(at_s)] += made
        else:
            found.others_asked += 1
            found.others_accepted += made
    found.counter_units = site.tables.charged(COUNTERS) - mark
    found.hottest, found.timers = site.tables.hottest, len(site.tables.items(TIMERS))
    return found


HEAD = f"{'creates/s':>10} {'quota':>6} {'processes':>10} {'accepted':>9} {'of quota':>9} {'first second':>13}"
HEAD += f" {'refused':>8} {'others':>10} {'units/accepted':>15} {'hottest key/s':>14}"


def row(found: Storm, *, quota: int, rate: int, seconds: int, processes: int) -> str:
    share = found.total / (quota * seconds)
    per_create = found.counter_units / max(1, found.total)
    others = f"{found.others_accepted}/{found.others_asked}"
    text = f"{rate:>10} {quota:>6} {processes:>10} {found.total:>9} {share:>9.1%} {found.accepted[0]:>13}"
    return text + f" {found.asked - found.total:>8} {others:>10} {per_create:>15.3f} {found.hottest:>14}"


STORMS = ((1_000, 100, 1), (1_000, 100, 8), (1_000, 100, 20), (110, 100, 8), (10_000, 1_000, 20))
BELOW = ((5, 100, 8), (40, 100, 1), (40, 100, 8), (40, 100, 20), (400, 1_000, 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", action="store_true", help="also a smaller one over the local endpoint")
    parser.add_argument("--port", type=int, default=0, help="of the local endpoint; 0: any that is free")
    chosen = parser.parse_args()
    for title, table, seconds in (("Over the quota, 30 s", STORMS, 30), ("Below half of it, 300 s", BELOW, 300)):
        print(f"\n{title}, in virtual time\n{HEAD}")
        for rate, quota, processes in table:
            shape = {"quota": quota, "rate": rate, "seconds": seconds, "processes": processes}
            print(row(storm(**shape), **shape), flush=True)
    if chosen.local:
        from benchmarks import quotas_local

        quotas_local.main(chosen.port)


if __name__ == "__main__":
    main()
