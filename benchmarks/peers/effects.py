"""What a job does in every peer: wait as if for a service, then append a line of which timer it was and when it ran."""

from __future__ import annotations

import os
import time

WORK_S = 0.05


def effect(timer: str, due_ms: int) -> None:
    time.sleep(WORK_S)
    line = f"{timer} {due_ms} {time.time_ns() // 1_000_000}\n"
    file = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
