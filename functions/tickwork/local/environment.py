"""The Python environment of the AWS endpoint: found, or made at the first start.

MiniStack pins botocore, so it cannot live beside tickwork. In a clone `make setup` makes `.venv-ministack`; whoever has
installed the package gets one from the same lock file, which the wheel carries, in the folder of caches. Protects: what
is installed is what the lock file's hashes say, and an environment that was not finished is never used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tickwork.core.errors import TickworkError

LOCK = Path(__file__).with_name("ministack.lock")
MADE = ".made"
"""Written last: without it the folder is what an interrupted start has left."""
MADE_WITHIN_S = 600.0
"""Some 30 MB are loaded; a package registry behind a slow line may take minutes."""
LINES_SHOWN = 12


class NoEnvironment(TickworkError):
    """The endpoint's environment could not be made."""


def endpoint_python(say: Callable[[str], None]) -> Path:
    """The interpreter to run the endpoint with. NoEnvironment when it has to be made and cannot be."""
    found = existing()
    return made(cache_folder(os.environ), say) if found is None else found


def existing() -> Path | None:
    """What TICKWORK_MINISTACK names, or the environment that `make setup` makes beside the one that runs us."""
    if named := os.environ.get("TICKWORK_MINISTACK"):
        return Path(named)
    beside = _python_of(Path(sys.prefix).parent / ".venv-ministack")
    return beside if beside.exists() else None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where environments are kept that can be made again: XDG_CACHE_HOME, or ~/.cache."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tickwork"


def made(caches: Path, say: Callable[[str], None]) -> Path:
    """The environment of this lock file and this Python, made if it is not there. Another session that is making it is
    waited for."""
    folder = caches / f"endpoint-{_name()}"
    python = _python_of(folder)
    caches.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (caches / f"{folder.name}.lock").open("a", encoding="utf-8") as only_one:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        if not (folder / MADE).exists():
            say(f"first start: installing the AWS endpoint into {folder} (from the package registry, with hashes)")
            shutil.rmtree(folder, ignore_errors=True)
            _run("make it", sys.executable, "-m", "venv", str(folder))
            pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _run("install it", *pip, "--require-hashes", "-r", str(LOCK))
            (folder / MADE).touch()
    return python


def _name() -> str:
    """Another lock file, or another Python, is another environment."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{version}-{hashlib.sha256(LOCK.read_bytes() + sys.executable.encode()).hexdigest()[:12]}"


def _python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(what: str, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MADE_WITHIN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoEnvironment(f"the AWS endpoint's environment: to {what} took over {MADE_WITHIN_S:.0f} s") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LINES_SHOWN:])
        raise NoEnvironment(
            f"the AWS endpoint's environment could not be made (to {what}, exit {done.returncode}). It needs the venv "
            "module and a package registry that pip reaches; TICKWORK_MINISTACK names the interpreter of one that is "
            f"there. It said:\n{said}"
        )
