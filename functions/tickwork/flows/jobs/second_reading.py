"""What croniter makes of a job's expression when it is registered, told to the caller and to the operators.

Owns: the count and the log lines of a second reading. Refuses to know: expressions.
Protects: nothing depends on it. Registration is done before it is asked, and it adds a warning at most.
"""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.schedule import Schedule
from tickwork.core.schedule.shown.second_reader import read_again
from tickwork.ports import Ports

SLOW_MS = 250
"""Beyond this its reading is a line in the log. The first of a process, which imports it, takes about a third."""


def second_reading(ports: Ports, spec: Mapping[str, object], schedule: Schedule) -> tuple[str, ...]:
    """The warnings of a second reading: none, or that croniter reads another time. For single jobs only."""
    began_ms = ports.clock.monotonic_ms()
    reading = read_again(spec, schedule, ports.clock.now_ms())
    took_ms = ports.clock.monotonic_ms() - began_ms
    if reading.failure:
        ports.signals.log("second_reader_failed", cron=spec.get("cron"), why=reading.failure)
    if took_ms > SLOW_MS:
        ports.signals.log("second_reader_slow", cron=spec.get("cron"), took_ms=took_ms)
    if not reading.warning:
        return ()
    ports.signals.count("schedules.second_reader_differed_total")
    ports.signals.log("second_reader_differed", cron=spec.get("cron"), why=reading.warning)
    return (reading.warning,)
