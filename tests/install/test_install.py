"""The wheel in empty environments, away from the source tree: what a team does that has never seen the repository."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.machine import eventually, free_port

ROOT = Path(__file__).parents[2]
OF_OTHER_PARTS = ("aws_lambda_powertools", "croniter", "rich", "moto", "greenlet", "aws_cdk")
"""What a machine that only runs jobs must not be asked to install."""
JOBS = """
from tickwork.worker import App, Context

app = App()


@app.job("hello")
def hello(ctx: Context) -> None:
    print("hello", ctx.payload["to"])
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    made = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(dist), str(ROOT)]
    subprocess.run(made, check=True, timeout=300)
    (found,) = dist.glob("*.whl")
    return found


def installed(folder: Path, wheel: Path, extra: str) -> Path:
    """The folder of the commands of an environment that has the wheel with an extra, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may lead to the source tree
    subprocess.run([*pip, f"{wheel}[{extra}]"], env=bare, check=True, timeout=300)
    return folder / "bin"


def away(**more: str) -> dict[str, str]:
    """An environment that leads to nothing of the source tree."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONUNBUFFERED": "1"} | more


class Project:
    """An empty folder with a team's own jobs, and `tickwork dev` in it."""

    def __init__(self, folder: Path, commands: Path, caches: Path) -> None:
        self.folder, self._commands, self.port = folder, commands, free_port()
        folder.mkdir()
        (folder / "jobs.py").write_text(JOBS, encoding="utf-8")
        self.environ = away(TICKWORK_API_URL=f"http://127.0.0.1:{self.port}", XDG_CACHE_HOME=str(caches))
        self._log = folder.parent / f"{folder.name}.log"
        self.began_s = 0.0

    def starts(self, *options: str) -> subprocess.Popen[bytes]:
        self.began_s = time.monotonic()
        ports = ["--port", str(self.port), "--endpoint-port", str(free_port())]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [self._commands / "tickwork", "dev", *ports, *options],
                cwd=self.folder, env=self.environ, stdout=log, stderr=log,
            )  # fmt: skip

    def text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._commands / "tickwork", *arguments],
            cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Project:
    folder = tmp_path_factory.mktemp("local")
    return Project(folder / "project", installed(folder / "env", wheel, "local"), folder / "caches")


def ended(session: subprocess.Popen[bytes]) -> int:
    session.send_signal(signal.SIGINT)
    return session.wait(60)


@pytest.mark.timeout(600)
def test_a_team_runs_its_own_jobs_from_an_empty_folder_and_a_worker_that_is_installed_alone(
    project: Project, tmp_path: Path, wheel: Path
) -> None:
    session = project.starts("--pool", "orders")
    try:
        eventually(project.text, lambda text: "ready after" in text, within_s=240)
        assert "installing the AWS endpoint" in project.text()
        assert "registered" not in project.text(), "the demo is not theirs"
        hello = ["--pool", "orders", "--handler", "hello", "--payload", '{"to": "you"}']
        project.run("jobs", "create", "mine:hello", "--rate", "5 seconds", *hello)
        commands = installed(tmp_path / "worker", wheel, "worker")
        for name in OF_OTHER_PARTS:
            missing = subprocess.run([commands / "python", "-c", f"import {name}"], env=away(), capture_output=True)
            assert b"ModuleNotFoundError" in missing.stderr, name
        worker = subprocess.Popen(
            [commands / "tickwork", "worker", "jobs.py:app", "--pool", "orders", "--lease"],
            cwd=project.folder, env=project.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            eventually(project.text, lambda text: " succeeded " in text, within_s=60)
        finally:
            worker.send_signal(signal.SIGTERM)
            said, _ = worker.communicate(timeout=60)
        assert b"hello you" in said
    finally:
        assert ended(session) == 0, project.text()


@pytest.mark.timeout(300)
def test_the_next_session_has_its_jobs_pools_and_endpoint_at_once(project: Project) -> None:
    session = project.starts("--worker", "orders=jobs.py:app")
    try:
        eventually(project.text, lambda text: "ready after" in text, within_s=60)
        print(f"\nsecond start ready after {time.monotonic() - project.began_s:.1f} s")
        eventually(project.text, lambda text: " succeeded " in text and "mine:hello" in text, within_s=60)
        assert "installing the AWS endpoint" not in project.text()
    finally:
        assert ended(session) == 0, project.text()
    assert set((project.folder / ".tickwork" / "pools").read_text().split()) == {"orders", "default", "push"}
