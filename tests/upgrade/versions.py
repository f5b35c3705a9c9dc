"""Two versions of tickwork on one endpoint: the sources of the previous one, and processes of either."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREVIOUS = Path(__file__).with_name("previous_version")
ENDS_WITHIN_S = 40


def previous_commit() -> str:
    return PREVIOUS.read_text(encoding="utf-8").strip()


def why_not_there(commit: str) -> str:
    """Why the previous version cannot be had here; empty when it can."""
    found = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    if found.returncode == 0:
        return ""
    return f"this clone lacks {commit[:10]}: `git fetch --depth 1 origin {commit}` brings it into a shallow one"


def sources_of(commit: str, folder: Path, *only: str) -> Path:
    """The sources of a commit, unpacked into a folder; of some of its folders `only`."""
    packed = subprocess.run(["git", "archive", commit, *only], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@dataclass
class Version:
    """The processes of one version: `functions` are its sources, `port` is its API's."""

    name: str
    functions: Path
    port: int
    environ: Mapping[str, str]
    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, part: str, *arguments: str) -> None:
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(self.functions), "TICKWORK_API_URL": self.url}
        with (self.logs / f"{self.name}-{part}.log").open("ab") as log:
            self.running[part] = subprocess.Popen(
                [sys.executable, "-m", "tickwork.cli.main", *arguments], env=environ, stdout=log, stderr=log
            )

    def run(self, *arguments: str) -> None:
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(self.functions)}
        subprocess.run([sys.executable, "-m", "tickwork.cli.main", *arguments], env=environ, check=True, timeout=120)

    def stop(self, *parts: str) -> None:
        """Ask these parts to end, all when none is named; kill what does not."""
        chosen = [self.running.pop(part) for part in parts or list(self.running)]
        for process in chosen:
            process.send_signal(signal.SIGTERM)
        for process in chosen:
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
