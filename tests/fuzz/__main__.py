"""`make fuzz`: schemathesis asks the running API, with a key of each role of two teams, and holds every answer to the
committed document.

The API runs here; who asks runs in an environment of its own, with schemathesis in it (`asking.py`). Ends with 0 only
when nothing was found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from tests.fuzz import world

DOCUMENT = Path("docs/openapi.json")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of what is asked: the same asks the same")
    parser.add_argument("--port", type=int, default=0, help="of the API (default: a free one)")
    parser.add_argument("--only", default="", help="one operation, by its operationId")
    parser.add_argument("--python", type=Path, default=Path(".venv-fuzz/bin/python"), help="one that has schemathesis")
    chosen = parser.parse_args()
    fuzzed = world.make()
    server = fuzzed.server(chosen.port)
    server.serve_in_background()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as known:
        json.dump(fuzzed.known | {"url": f"http://127.0.0.1:{server.server_port}"}, known)
        known.flush()
        asked = [known.name, str(DOCUMENT), str(chosen.requests), str(chosen.seed), chosen.only]
        found = subprocess.run([chosen.python.absolute(), "-m", "tests.fuzz.asking", *asked], check=False)
    server.shutdown()
    for one in fuzzed.failures():
        print(f"the service failed: {one}")
    for one in fuzzed.faults[:20]:
        print(f"not as its route declares: {one}")
    return int(bool(found.returncode or fuzzed.failures() or fuzzed.faults))


if __name__ == "__main__":
    raise SystemExit(main())
