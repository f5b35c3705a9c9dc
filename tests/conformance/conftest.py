"""The stores that must agree: memory (the reference, and the simulator's), moto, and MiniStack."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber

from tests.support.machine import free_port
from tickwork.aws.provision import create_all
from tickwork.ports import Store
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore
from tickwork.testing.memory import MemoryStore

MINISTACK = Path(__file__).parents[2] / ".venv-ministack"
START_TRIES_MAX = 100

_numbers = itertools.count()


@pytest.fixture(params=["memory", "moto", "ministack"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store of each kind."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def memory_store() -> Store:
    return MemoryStore()


@pytest.fixture
def moto_store(moto_clients: tuple[Any, Any]) -> Store:
    return _dynamo_store(*moto_clients)


@pytest.fixture
def ministack_store(ministack_clients: tuple[Any, Any]) -> Store:
    return _dynamo_store(*ministack_clients)


def _dynamo_store(dynamodb: Any, sqs: Any) -> DynamoStore:
    """A store over tables of its own."""
    prefix = f"conf-{os.getpid()}-{next(_numbers)}"
    create_all(dynamodb, sqs, Settings(prefix=prefix))
    tokens = itertools.count()
    return DynamoStore(dynamodb, prefix, lambda: f"{prefix}-{next(tokens)}")


@pytest.fixture(scope="session")
def moto_clients() -> Iterator[tuple[Any, Any]]:
    right, lock = BotocoreStubber.__call__, threading.RLock()

    def one_at_a_time(self: BotocoreStubber, *arguments: Any, **named: Any) -> Any:
        with lock:  # moto's tables are not atomic under threads
            return right(self, *arguments, **named)

    BotocoreStubber.__call__ = one_at_a_time
    try:
        with mock_aws():
            yield _clients(None)
    finally:
        BotocoreStubber.__call__ = right


@pytest.fixture(scope="session")
def ministack_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    python = MINISTACK / "bin" / "python"
    if not python.exists():
        pytest.skip("MiniStack is not installed: `make` creates its environment in .venv-ministack")
    port = free_port()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("ministack"))}
    settings = {"BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0", "GATEWAY_PORT": str(port), "PERSIST_STATE": "0"}
    server = subprocess.Popen(
        [python, "-m", "ministack"],
        env=environ | settings,
        cwd=environ["HOME"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_healthy(server, port)
        yield _clients(f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)


def _clients(endpoint_url: str | None) -> tuple[Any, Any]:
    access: dict[str, Any] = {
        "region_name": "us-east-1",
        "aws_access_key_id": "000000000000",
        "aws_secret_access_key": "test",
        "endpoint_url": endpoint_url,
        "config": Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=20, max_pool_connections=16),
    }
    return boto3.client("dynamodb", **access), boto3.client("sqs", **access)


def _wait_until_healthy(server: subprocess.Popen[bytes], port: int) -> None:
    waiting = threading.Event()
    for _ in range(START_TRIES_MAX):
        if server.poll() is not None:
            raise RuntimeError(f"MiniStack ended with {server.returncode} before it was healthy")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_ministack/health", timeout=1):
                return
        except OSError:
            waiting.wait(0.1)
    raise RuntimeError("MiniStack did not become healthy")
