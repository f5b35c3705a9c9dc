"""How long a herd forecast takes at the design scale: `make bench-herd`. 200,000 definitions, 14 days, one core."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from random import Random

from tickwork.core.ids import stable_hash
from tickwork.core.instants import iso, parse_iso
from tickwork.core.jobs.herd import Due, forecast, peaks
from tickwork.core.schedule import TOLERANCE_S, default_tolerance_s, parse_schedule

BEGIN_MS = parse_iso("2026-12-20T00:00:00Z")
ZONES = ("UTC", "UTC", "UTC", "America/New_York", "Europe/Berlin", "Asia/Tokyo", "Asia/Kolkata")
TEAMS = 40


def definitions(count: int, seed: int = 1) -> Iterator[Due]:
    """As people write them: most at midnight and on whole hours, some every few minutes, many rates with anchors of
    their own, a part at a minute that somebody has chosen, a part exact."""
    rng = Random(seed)
    for number in range(count):
        job_id = f"team-{stable_hash(str(number)) % TEAMS}:job-{number}"
        draw, zone = rng.random(), rng.choice(ZONES)
        hour, minute = rng.randrange(24), rng.randrange(60)
        if draw < 0.5:
            spec: dict[str, object] = {"cron": "0 0 * * *", "zone": "UTC"}
        elif draw < 0.65:
            spec = {"cron": f"0 {hour} * * *", "zone": zone}
        elif draw < 0.8:
            spec = {"cron": f"{minute} {hour} * * *", "zone": zone}
        elif draw < 0.88:
            spec = {"cron": "0 * * * *", "zone": zone}
        elif draw < 0.92:
            spec = {"cron": f"*/{rng.choice((1, 5, 10, 15))} * * * *", "zone": zone}
        elif draw < 0.97:
            anchor_ms = BEGIN_MS - rng.randrange(10**10) // 1_000 * 1_000
            spec = {"rate": rng.choice(("1 hour", "15 minutes", "1 day", "6 hours")), "anchor": iso(anchor_ms)}
        else:
            spec = {"cron": f"{minute} {hour} {rng.randrange(1, 29)} * *", "zone": zone}
        schedule = parse_schedule(spec, now_ms=BEGIN_MS, job_id=job_id)
        tolerance_s = 0 if rng.random() < 0.05 else default_tolerance_s(schedule)
        yield Due(job_id, schedule, tolerance_s)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--days", type=int, default=14)
    chosen = parser.parse_args(arguments)
    jobs = list(definitions(chosen.jobs))
    began_s = time.process_time()
    found = forecast(jobs, BEGIN_MS, chosen.days)
    counted_s = time.process_time()
    highest = peaks(found, 5, TOLERANCE_S)
    ended_s = time.process_time()
    print(
        f"{len(jobs):,} definitions x {chosen.days} days: {sum(found.before):,} occurrences, "
        f"{len(found.groups):,} groups; "
        f"counted in {counted_s - began_s:.1f} s, peaks in {ended_s - counted_s:.1f} s of one core"
    )
    print(f"highest minute before {max(found.before):,}, after {max(found.after):,}")
    for peak in highest:
        print(
            iso(peak.at_ms),
            peak.before,
            peak.after,
            peak.exact,
            [(one.do, one.jobs, one.height) for one in peak.advice],
        )


if __name__ == "__main__":
    main()
