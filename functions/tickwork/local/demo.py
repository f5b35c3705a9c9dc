"""What `tickwork dev` registers: a nightly settlement, a job of every ten seconds, twenty reservation holds."""

from __future__ import annotations

from typing import Any

from tickwork.client import ApiClient, ApiRefused
from tickwork.local.plain import plain

REGISTERED = "registered"
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


TEAM_SAYS = {"contact": "you, at this machine", "runbook": "docs/operations.md"}


def register(api: ApiClient, batch: str) -> str:
    """Create the jobs, again is a no-op, and fresh holds; what came of it. A job that somebody has changed, as he is
    invited to, stays as he has made it, and nothing that the API refuses here is a reason not to go on."""
    told = [*_register_team(api), *(_register_job(api, body) for body in (SETTLEMENT, HEARTBEAT))]
    try:
        created, cancelled = create_holds(api, batch)
        told.append(f"{created} reservation holds made, {cancelled} of them cancelled")
    except ApiRefused as error:
        told.append(f"no reservation holds: {plain(str(error))}")
    jobs = told.count(REGISTERED)
    return "; ".join(
        [f"registered {jobs} job{'' if jobs == 1 else 's'}", *(line for line in told if line != REGISTERED)]
    )


def _register_team(api: ApiClient) -> list[str]:
    """What is to be said of it: nothing, unless it was refused. One that somebody has changed stays as it is."""
    try:
        api.call("PUT", f"/teams/{TEAM}", TEAM_SAYS)
    except ApiRefused as error:
        return [] if error.status == 409 else [f"team {TEAM} not: {plain(str(error))}"]
    return []


def _register_job(api: ApiClient, body: dict[str, Any]) -> str:
    job_id = f"{body['team']}:{body['name']}"
    try:
        api.post("/jobs", body)
    except ApiRefused as error:
        return f"{job_id} stays as it was changed" if error.status == 409 else f"{job_id} not: {plain(str(error))}"
    return REGISTERED


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
