"""The peers, each as its manual sets it up for work that must not be lost, and tickwork."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.peers.load import Load
from benchmarks.peers.peer import ROOT, Peer, Place
from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.ledger.queues import ready_queue
from tickwork.local import endpoint
from tickwork.local.endpoint import Endpoint
from tickwork.settings import Settings

PYTHON = str(ROOT / ".venv-peers" / "bin" / "python")
BULLMQ = str(Path(__file__).parent / "bullmq" / "timers.mjs")
STARTS_WITHIN_S = 30


class APScheduler(Peer):
    name = "APScheduler 3, SQLite"
    creates_per_s = 600
    recovers_within_s = 20

    def programs(self) -> dict[str, list[str]]:
        return {"scheduler": [PYTHON, "-m", "benchmarks.peers.aps", "run", str(self.place.slots)]}

    def creator(self) -> list[str]:
        return [PYTHON, "-m", "benchmarks.peers.aps"]

    def create(self, load: Load) -> float:
        """By a scheduler of its own before this one starts: two must not share a store."""
        self.kill("scheduler")
        took_s = super().create(load)
        self.start_programs("scheduler")
        return took_s

    def start_service(self) -> int:
        return 0

    def stop_service(self) -> None:
        pass


class OnRedis(Peer):
    """Redis as Debian has it, with its append-only file on."""

    def start_service(self) -> int:
        port, folder = str(self.place.port), str(self.place.folder)
        command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes"]
        self._redis = self.spawn("redis", command)
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while self.redis("PING") != "PONG":
            if time.monotonic() > deadline_s or self._redis.poll() is not None:
                raise SystemExit(f"Redis does not answer on port {port}")
            time.sleep(0.1)
        return self._redis.pid

    def redis(self, *command: str) -> str:
        asked = ["redis-cli", "-p", str(self.place.port), *command]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()

    def stop_service(self) -> None:
        self._redis.terminate()
        self._redis.wait(10)


class Celery(OnRedis):
    name = "Celery, Redis; late acks, visibility 90 s"
    creates_per_s = 800
    recovers_within_s = 110

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.environ["BROKER"] = f"redis://127.0.0.1:{place.port}/0"

    def programs(self) -> dict[str, list[str]]:
        worker = [PYTHON, "-m", "celery", "-A", "benchmarks.peers.celery_app", "worker", "--loglevel", "WARNING"]
        return {"scheduler": [*worker, "--concurrency", str(self.place.slots)]}

    def creator(self) -> list[str]:
        return [PYTHON, "-m", "benchmarks.peers.celery_app"]


class CeleryAsItComes(Celery):
    name = "Celery, Redis; as it comes"
    recovers_within_s = 30
    only_killed = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.environ["CELERY_AS_IT_COMES"] = "1"

    def held(self) -> int:
        return int(self.redis("HLEN", "unacked"))


class BullMQ(OnRedis):
    name = "BullMQ, Redis"
    creates_per_s = 2_000
    recovers_within_s = 75

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.environ["REDIS_PORT"] = str(place.port)

    def programs(self) -> dict[str, list[str]]:
        return {"scheduler": ["node", BULLMQ, "run", str(self.place.slots)]}

    def creator(self) -> list[str]:
        return ["node", BULLMQ]


class OnEndpoint(Peer):
    """The embedded AWS endpoint."""

    destination: str
    """The queue that its workers take from."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._endpoint = Endpoint(
            python=endpoint.default_python(),
            port=place.port,
            state=place.folder / "aws",
            log=place.folder / "endpoint.log",
        )
        self.environ |= endpoint.client_environ(place.port)
        self._sqs = sqs_client(self._endpoint.url)

    def start_service(self) -> int:
        self._endpoint.start()
        return self._endpoint.pid

    def stop_service(self) -> None:
        self._endpoint.stop()

    def dispatched(self) -> int:
        url = self._sqs.get_queue_url(QueueName=self.destination)["QueueUrl"]
        held = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        waiting = int(held["ApproximateNumberOfMessages"]) + int(held["ApproximateNumberOfMessagesNotVisible"])
        return super().dispatched() + waiting


class Dynein(OnEndpoint):
    name = "Dynein's calls re-enacted, emulator"
    creates_per_s = 150
    recovers_within_s = 40
    destination = "dynein-destination"

    def programs(self) -> dict[str, list[str]]:
        return {name: [*self.creator(), name, str(self.place.slots)] for name in ("scheduler", "worker")}

    def creator(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.dynein"]

    def start_service(self) -> int:
        pid = super().start_service()
        self.spawn("provision", [*self.creator(), "provision"]).wait(STARTS_WITHIN_S)
        return pid


class Tickwork(OnEndpoint):
    name = "tickwork, emulator"
    creates_per_s = 250
    recovers_within_s = 75
    victims = ("windows",)
    settings = Settings(prefix="tickwork-peers", shards=4, slices=2)
    destination = f"{settings.prefix}-{ready_queue('default')}"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._api = ApiClient(f"http://127.0.0.1:{place.port + 1}", auth="none")
        self.environ |= self.settings.to_environ() | {"TICKWORK_API_URL": self._api.url}

    def programs(self) -> dict[str, list[str]]:
        worker = ["worker", "benchmarks/peers/tickwork_jobs.py:app", "--pool", "default"]
        commands = {
            "api": ["serve", "api", "--port", str(self.place.port + 1)],
            "windows": ["serve", "windows"],
            "worker": [*worker, "--concurrency", str(self.place.slots)],
        }
        return {name: [sys.executable, "-m", "tickwork.cli.main", *command] for name, command in commands.items()}

    def creator(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.tickwork_jobs"]

    def start_service(self) -> int:
        pid = super().start_service()
        create_all(dynamodb_client(self._endpoint.url), self._sqs, self.settings)
        return pid

    def start(self) -> None:
        super().start()
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                self._api.call("GET", "/health", repeat=False)
                return
            except (ApiUnreachable, ApiRefused):
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)


class TickworkWorkerKilled(Tickwork):
    name = "tickwork, emulator; its worker killed"
    victims = ("worker",)
    only_killed = True

    def dispatched(self) -> int:
        return len(self.lines())


ALL: tuple[type[Peer], ...] = (APScheduler, Celery, CeleryAsItComes, BullMQ, Dynein, Tickwork, TickworkWorkerKilled)
