"""How long a newcomer waits: a fresh clone's `make run` to the first run that succeeded, and the next start.

    python -m tests.install.first_run

The package cache is this machine's own; on a quiet machine with a warm one it should be 45 s, and then 5 s.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.machine import eventually, free_port

ROOT = Path(__file__).parents[2]
FIRST_WITHIN_S = 600
NEXT_WITHIN_S = 120


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "tickwork"
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True)
        first_s = seconds_until(clone, " succeeded ", FIRST_WITHIN_S)
        print(f"fresh clone to the first succeeded run: {first_s:.1f} s")
        next_s = seconds_until(clone, "ready after", NEXT_WITHIN_S)
        print(f"the next start until it is ready: {next_s:.1f} s")


def seconds_until(clone: Path, text: str, within_s: float) -> float:
    """From `make run` until it shows the text; it is then ended as a person would."""
    log = clone / "session.log"
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TICKWORK_MINISTACK")}
    began_s = time.monotonic()
    with log.open("wb") as output:
        session = subprocess.Popen(
            ["make", "run", f"PORT={free_port()}", f"ENDPOINT_PORT={free_port()}"],
            cwd=clone, env=bare | {"PYTHONUNBUFFERED": "1"}, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        eventually(log.read_text, lambda shown: text in shown, within_s=within_s)
        return time.monotonic() - began_s
    finally:
        os.killpg(session.pid, signal.SIGINT)
        session.wait(60)


if __name__ == "__main__":
    main()
