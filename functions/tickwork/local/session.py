"""One session of `tickwork dev`: start in order, show, end in order."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tickwork.aws.provision import create_all
from tickwork.aws.wiring import aws_ports, dynamodb_client, sqs_client
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.local import demo as demo_jobs
from tickwork.local import endpoint, session_keys
from tickwork.local import pools as local_pools
from tickwork.local.endpoint import Endpoint
from tickwork.local.occupancy import PREDECESSOR_WITHIN_S, NotStarted, only_session_of, require_free
from tickwork.local.processes import Child, Supervisor
from tickwork.local.screen import Screen
from tickwork.local.session_keys import SessionKeys
from tickwork.local.signals import LineSignals
from tickwork.settings import Settings

API_WITHIN_S = 30.0
SHOW_EVERY_S = 1.0
DEMO_WORKER = Path(__file__).parents[3] / "examples" / "demo_worker.py"

SETTINGS = Settings(
    prefix="tickwork-dev",
    shards=4,
    slices=2,
    retention_days=7,
    push_private=True,  # the receiver of one who tries it out is on this machine
)


class Session:
    """Endpoint, tables, API, windows, pusher, workers, demo, screen: started in this order, ended in the other."""

    def __init__(
        self,
        *,
        port: int,
        endpoint_port: int,
        state: Path,
        python: Path | None = None,
        demo: bool = False,
        pools: Sequence[str] = (),
        workers: Sequence[tuple[str, str]] = (),
        auth: bool = False,
    ) -> None:
        """`python`: of the endpoint's environment. `workers`: pool and MODULE:APP of each worker to run. `auth`: the
        API asks for keys."""
        self._port, self._state, self._demo, self._auth = port, state.absolute(), demo, auth
        self._workers = [*workers, (demo_jobs.POOL, f"{DEMO_WORKER}:app")] if demo else list(workers)
        self._pools = (*pools, *(pool for pool, _ in self._workers))
        oidc, cells = (os.environ.get(name, "") for name in ("TICKWORK_OIDC", "TICKWORK_CELLS"))
        self._settings = replace(SETTINGS, oidc=oidc, cells=cells)
        self._endpoint = Endpoint(
            python=python,
            port=endpoint_port,
            state=self._state / "aws",
            log=self._state / "logs" / "endpoint.log",
        )
        self._children: list[Child] = []
        self._supervisor = Supervisor(self._children)
        self._ending = threading.Event()
        self._screen = Screen(self.url)
        self._warned = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def run(self, seconds: float | None = None) -> None:
        """Until Ctrl-C, SIGTERM, the end of its terminal, or `seconds` have passed."""
        with only_session_of(self._state) as killed_before:
            # Asked first: what listens there may be another session, which would answer as if it were this one's.
            within_s = PREDECESSOR_WITHIN_S if killed_before else 0.0
            require_free(self._endpoint.port, "the AWS endpoint", "ENDPOINT_PORT", within_s)
            require_free(self._port, "the API", "PORT", within_s)
            self._settings = local_pools.noted(self._state, self._pools, self._settings)
            self._children = self._made_children()
            self._supervisor = Supervisor(self._children)
            self._run(seconds)

    def _run(self, seconds: float | None) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._on_signal)
        began_s = time.monotonic()
        try:
            self._start()
            if not self._ending.is_set():
                self._screen.say(
                    f"ready after {time.monotonic() - began_s:.1f} s; state and logs in {self._state.name}/"
                )
                self._show_until(None if seconds is None else began_s + seconds)
        finally:
            self._end()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._ending.set()

    def _start(self) -> None:
        if self._demo and not DEMO_WORKER.exists():
            raise NotStarted("the demo's worker is in the source tree's examples/: run from there, or without --demo")
        self._screen.say(f"starting the AWS endpoint on {self._endpoint.url}")
        self._endpoint.start()
        os.environ.update(endpoint.client_environ(self._endpoint.port) | self._settings.to_environ())
        create_all(dynamodb_client(), sqs_client(), self._settings)
        keys = self._make_keys()
        parts = ["the windows", "the watchdog", "a pusher", *(f"a worker of {pool}" for pool, _ in self._workers)]
        self._screen.say(f"starting the API on {self.url}, {', '.join(parts)}")
        self._supervisor.start()
        client = self._wait_for_api(keys)
        if keys is not None:
            for line in session_keys.lines(keys):
                self._screen.say(line)
        if self._demo and client is not None:
            self._screen.say(demo_jobs.register(client, str(time.time_ns())))
        self._screen.hints(demo=self._demo)

    def _make_keys(self) -> SessionKeys | None:
        """With walls: keys for the parts of this session, handed to them, and for the person at it."""
        if not self._auth:
            return None
        team = demo_jobs.TEAM if self._demo else None
        keys = session_keys.make(aws_ports(self._settings, LineSignals()), team)
        self._screen.use_key(keys.platform)
        for child in self._children:
            if child.arguments[0] == "worker":
                child.environ = {**child.environ, "TICKWORK_API_KEY": keys.worker}
        return keys

    def _wait_for_api(self, keys: SessionKeys | None) -> ApiClient | None:
        client = ApiClient(self.url, auth="none") if keys is None else ApiClient(self.url, api_key=keys.platform)
        deadline_s = time.monotonic() + API_WITHIN_S
        while time.monotonic() < deadline_s and not self._ending.is_set():
            try:
                client.call("GET", "/health", repeat=False)
                return client
            except (ApiUnreachable, ApiRefused):
                self._supervisor.look_after()
                time.sleep(0.1)
        if self._ending.is_set():
            return None
        raise NotStarted(f"the API did not answer on {self.url}: is the port taken? See {self._state}/logs/api.log")

    def _show_until(self, deadline_s: float | None) -> None:
        while not self._ending.wait(SHOW_EVERY_S):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return
            if not self._endpoint.is_running():
                raise NotStarted(
                    f"the AWS endpoint has ended: see {self._state}/logs/endpoint.log. What was written in the last "
                    f"{self._endpoint.unsaved_s():.0f} s is lost; start again to go on with the rest"
                )
            if self._endpoint.cannot_save() and not self._warned:
                self._warned = True
                self._screen.say(f"the state cannot be saved (is the disk full?): see {self._state}/logs/endpoint.log")
            self._warned = self._warned and self._endpoint.cannot_save()
            for message in self._supervisor.look_after():
                self._screen.say(message)
            self._screen.update()

    def _end(self) -> None:
        self._screen.close()
        self._screen.say("ending: workers, pusher, watchdog, windows, API, then the endpoint, which saves its state")
        self._supervisor.stop()
        if not self._endpoint.stop():
            self._screen.say("the endpoint had to be killed: what was written since its last save is lost")

    def _made_children(self) -> list[Child]:
        environ = endpoint.client_environ(self._endpoint.port) | self._settings.to_environ()
        environ |= {"TICKWORK_API_URL": self.url, "DEMO_BOOKS": str(self._state / "demo-books.sqlite")}
        logs, auth = self._state / "logs", ("--auth",) if self._auth else ()
        children = [
            Child("API", ("serve", "api", "--port", str(self._port), *auth), environ, logs / "api.log"),
            Child("windows", ("serve", "windows"), environ, logs / "windows.log"),
            Child("watchdog", ("serve", "watch"), environ, logs / "watch.log"),
            Child("pusher", ("serve", "push"), environ | _push_secrets(self._state), logs / "push.log"),
        ]
        for number, (pool, app) in enumerate(self._workers):
            log = logs / (f"worker-{number}.log" if number else "worker.log")
            children.append(Child(f"worker {app} of {pool}", ("worker", app, "--pool", pool), environ, log))
        return children


def _push_secrets(state: Path) -> dict[str, str]:
    """Those of the environment, or one of this state's own, made the first time."""
    kept = state / "push-secret"
    if "TICKWORK_PUSH_SECRETS" in os.environ:
        return {}
    if not kept.exists():
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept.touch(0o600)
        kept.write_text(secrets.token_hex(32), encoding="utf-8")
    return {"TICKWORK_PUSH_SECRETS": kept.read_text(encoding="utf-8")}
