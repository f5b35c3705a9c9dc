"""A receiver of tickwork's pushes: checks the signature, then does the work once. Standard library only.

TICKWORK_TEAM_SECRET=... python examples/push_receiver.py 8900
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OLD_AFTER_S = 300


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Whether a push was signed with the team's secret, lately. While secrets rotate there are several `v1`."""
    parts = [part.partition("=")[::2] for part in headers.get("Tickwork-Signature", "").split(",")]
    at = next((value for name, value in parts if name == "t"), "")
    if not (at.isascii() and at.isdigit() and abs(now_s - int(at)) <= OLD_AFTER_S):
        return False
    signed = f"{at}.{headers.get('Idempotency-Key', '')}.".encode() + body
    mark = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(value.encode(), mark.encode()) for name, value in parts)


class Receiver(BaseHTTPRequestHandler):
    done: set[str] = set()  # noqa: RUF012 - of this process; keep it where the work's own effects are kept

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not is_genuine(os.environ["TICKWORK_TEAM_SECRET"], self.headers, body, time.time()):
            return self._answer(401)
        run = json.loads(body)
        if run["run_id"] not in self.done:  # a push may come again: the same run_id is the same work
            print(f"{run['run_id']} attempt {run['attempt']}: {run['payload']}", flush=True)
            self.done.add(run["run_id"])
        return self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8900
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
