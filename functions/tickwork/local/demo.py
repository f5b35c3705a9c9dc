"""What `tickwork dev` registers: a nightly settlement, a job of every ten seconds, twenty reservation holds."""

from __future__ import annotations

from typing import Any

from tickwork.client import ApiClient

TEAM, POOL = "payments", "payments"
HOLDS = 20
FIRST_HOLD_S, LAST_HOLD_S = 5, 60

SETTLEMENT = {
    "team": TEAM,
    "name": "nightly-settlement",
    "schedule": {"cron": "0 2 * * *", "zone": "America/New_York"},
    "target": {"pool": POOL, "handler": "settlement"},
    "payload": {"ledger": "cards"},
}
HEARTBEAT = {
    "team": TEAM,
    "name": "rate-feed",
    "schedule": {"rate": "10 seconds"},
    "target": {"pool": POOL, "handler": "rate-feed"},
}


def register_jobs(api: ApiClient) -> list[dict[str, Any]]:
    """Create the jobs; again is a no-op."""
    return [api.post("/jobs", body) for body in (SETTLEMENT, HEARTBEAT)]


def create_holds(api: ApiClient, batch: str) -> tuple[int, int]:
    """Create holds that expire after 5 to 60 s and cancel every other one, as when a customer pays in time."""
    step_s = (LAST_HOLD_S - FIRST_HOLD_S) / (HOLDS - 1)
    timers = [
        {
            "team": TEAM,
            "delay_s": round(FIRST_HOLD_S + i * step_s),
            "target": {"pool": POOL, "handler": "hold-expired"},
            "payload": {"seat": f"{10 + i}A"},
            "client_key": f"demo-hold-{batch}-{i}",
        }
        for i in range(HOLDS)
    ]
    created = api.post("/timers:batch", {"timers": timers})["timers"]
    paid = [timer["timer_id"] for timer in created[1::2]]
    answers = api.post("/timers:cancel", {"timer_ids": paid})["timers"]
    return len(created), sum(1 for answer in answers if answer["cancelled"])
