"""A job as the command line shows it."""

from __future__ import annotations

import json
from typing import Any

from tickwork.cli.output import show_facts, show_json


def show_job(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(job)
        return
    facts: dict[str, Any] = {
        "job": job["job_id"],
        "status": job["status"],
        "schedule": short_schedule(job["schedule"]),
        "next": job["next"] and f"{job['next']['fire_at']} (nominal {job['next']['scheduled_at']})",
        "last": job["last"] and f"{job['last']['status']} {job['last']['scheduled_at']}",
        "target": _target(job["target"], job.get("lane")),
        "tolerance": f"{job['tolerance_s']} s",
        "retries": f"{job['retry_policy']['max_attempts']} attempts",
        "version": job["version"],
    }
    facts |= {name: job[name] for name in ("owner", "pager_route", "runbook", "description") if name in job}
    if "tags" in job:
        facts["tags"] = ", ".join(job["tags"])
    if "dead_man_switch" in job or "max_silence_s" in job:
        silence = f"{job['max_silence_s']} s" if "max_silence_s" in job else "as its schedule allows"
        facts["dead man's switch"] = f"{job.get('dead_man_switch', 'on')}, silent for {silence}"
    if job["status"] == "paused":
        facts["paused"] = "; ".join(_paused(job))
    skips = [one for one in job.get("skips", ()) if "undone_by" not in one]
    if skips:
        facts["skips"] = "; ".join(f"{one['scheduled_at']} by {one['by']}: {one['reason']}" for one in skips)
    show_facts(facts | ({"reason": job["reason"]} if job.get("reason") else {}))


def _paused(job: dict[str, Any]) -> list[str]:
    """Each pause over the job, with what of it is paused where that is more than the job."""
    over = [(f"with the {one['kind']} {one['name']} ", one) for one in job.get("paused_by", ())]
    own = [("", job["pauses"][-1])] if not over else []
    return [what + _pause(one) for what, one in own + over]


def _pause(pause: dict[str, Any]) -> str:
    waits = f"; what is due waits ({pause['at_resume']})" if pause.get("at_resume", "skip") != "skip" else ""
    return f"by {pause['by']}: {pause['reason']} (until {pause['until'] or 'it is resumed'}){waits}"


def _target(target: dict[str, Any], lane: str | None) -> str:
    where = str(target["url"]) if "url" in target else f"{target['handler']} in pool {target['pool']}"
    return f"{where}, lane {lane}" if lane else where


def short_schedule(spec: dict[str, Any]) -> str:
    """A schedule in a table's cell: its own words where it has one kind, else JSON."""
    for kind in ("cron", "rate", "at"):
        if kind in spec:
            zone = spec.get("zone", "UTC")
            return f"{kind} {spec[kind]}" + (f" {zone}" if zone != "UTC" else "")
    return json.dumps(spec, ensure_ascii=False)
