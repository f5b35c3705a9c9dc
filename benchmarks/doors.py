"""What a call costs by each door of the deployed API, and what it costs when nobody has a credential at all.

`make bench-cost` prints this table; docs/access.md has it. Reads are counted by running the authorizer on the counting
store; durations and bytes of log lines are those of `tickwork.price.cost`, the authorizer's time is assumed here.
Requests that API Gateway refuses are counted as charged: where they are not, it is less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tests.support.doors import Authorizer, asked
from tests.support.fakes import fake_ports

from benchmarks.meter.bill import READS, Bill, usd
from benchmarks.meter.ports import CountingStore
from tickwork.api.door import REMEMBERED_S
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.api_keys import key_text
from tickwork.core.instants import DAY_MS
from tickwork.flows.access import keys
from tickwork.flows.access.keys import Wanted
from tickwork.ports import Ports
from tickwork.price.cost import ACCESS_BYTES, API_GB, CALL_MS
from tickwork.settings import ENVIRONMENTS
from tickwork.testing.memory import MemoryStore

AUTHORIZER_MS, AUTHORIZER_GB = 4, 0.5
"""Assumed: warm, with one read."""
TELLS_MS = 3
"""Assumed: the API, for a refusal, which reads no request and runs no flow."""
BUSY: Final = 100
"""Calls by one key in the time for which API Gateway remembers it."""

type Amounts = dict[str, float]


def _request() -> Amounts:
    return {"http_api_requests": 1, "logs_gb": ACCESS_BYTES / 1e9}


def _function(duration_ms: float, gb: float) -> Amounts:
    return {"lambda_requests": 1, "lambda_gb_s": duration_ms / 1_000 * gb}


def _asked(ports: Ports, bill: Bill, credential: Callable[[], str]) -> Amounts:
    """One question to an authorizer that has not seen this credential."""
    shown = credential()
    before = bill.total()[READS]
    Authorizer(ports).answer(asked(f"Bearer {shown}"))
    return _function(AUTHORIZER_MS, AUTHORIZER_GB) | {READS: bill.total()[READS] - before}


def _sum(*parts: Amounts, times: float = 1) -> Amounts:
    total: Counter[str] = Counter()
    for part in parts:
        total.update({name: amount * times for name, amount in part.items()})  # type: ignore[misc]
    return dict(total)


def prices() -> dict[str, float]:
    """Dollars for a million requests of each kind."""
    bill = Bill()
    inner = fake_ports(MemoryStore())
    ports = fake_ports(CountingStore(inner.store, bill))
    ends_at_ms = ports.clock.now_ms() + DAY_MS
    _, valid = keys.create_key(ports, Wanted("payments", "owner", ends_at_ms), LOCAL)
    api = _function(CALL_MS, API_GB)
    question = _asked(ports, bill, lambda: valid)
    unknown = _asked(ports, bill, lambda: key_text("payments", b"x" * 32))
    garbled = _asked(ports, bill, lambda: valid[:-1])
    token = _function(AUTHORIZER_MS, AUTHORIZER_GB)
    told = _function(TELLS_MS, API_GB)
    kinds = {
        "signed, first door (every call, before there was a second)": _sum(_request(), api),
        f"with a key, {BUSY} calls in {REMEMBERED_S} s": _sum(_request(), api, _sum(question, times=1 / BUSY)),
        "with a key, seldom: the authorizer is asked each time": _sum(_request(), api, question),
        "with a token, seldom: no table is asked": _sum(_request(), api, token),
        "flood: no header": _request(),
        "flood: garbled keys, each another": _sum(_request(), garbled),
        "flood: well-formed keys that nobody made, each another": _sum(_request(), unknown),
        "flood: one revoked key": _sum(_request(), told),
    }
    return {name: usd(amounts) * 1e6 for name, amounts in kinds.items()}


def rows() -> Iterator[str]:
    found = prices()
    yield "| a million requests | $ |"
    yield "|---|---|"
    yield from (f"| {name} | {price:.2f} |" for name, price in found.items())


def flood_rows() -> Iterator[str]:
    """The most that a day of flood at the second door can cost: its limit lets no more through."""
    dearest = max(price for name, price in prices().items() if name.startswith("flood"))
    for name, environment in ENVIRONMENTS.items():
        per_day = environment.key_requests_per_s * 86_400
        yield f"| `{name}` | {environment.key_requests_per_s} | {per_day / 1e6 * dearest:.0f} |"


def show_doors() -> None:
    print("\n### A call by each door\n")
    print("\n".join(rows()))
    print("\n| a day of flood | let through a second | at most, $ |\n|---|---|---|")
    print("\n".join(flood_rows()))


if __name__ == "__main__":
    show_doors()
