"""The package that every function runs: `functions/`, and what `requirements/lambda.lock` pins, compiled.

Two targets. `aarch64` is what AWS gets: wheels for Lambda's arm64, taken by pip from the package index. `host` is
built from what is installed here, without a network, for this machine: local endpoints run it, and `cdk synth` falls
back to it. boto3 comes with the Lambda runtime. `python -m infra.asset [--host]` builds, and prints the size.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import importlib.metadata
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
LOCK = ROOT / "requirements" / "lambda.lock"
RUNTIME = (3, 13)
SIZE_MB_MAX = 40
PIP_TIMEOUT_S = 900
NOT_SHIPPED = ("cli", "client.py", "conformance", "fan_out.py", "local", "price", "testing", "worker")
"""Parts of the package that no function imports, and whose dependencies are not in the lock. `make lint` holds it to
the imports (`infra/shipped.py`)."""
_UTILITIES = "aws_lambda_powertools/utilities"
_BUILDS = ("cffi", "pycparser")
"""What `cryptography` was built with: at run time it needs `_cffi_backend` alone."""
UNUSED = _BUILDS + tuple(
    f"{_UTILITIES}/{name}"
    for name in (
        "auth_alpha",
        "batch",
        "circuit_breaker",
        "data_masking",
        "feature_flags",
        "idempotency",
        "kafka",
        "parameters",
        "parser",
        "streaming",
        "validation",
    )
)
"""Parts of packages that nothing here imports: less to unpack at each cold start. The end-to-end test runs without."""
_KEPT_METADATA = {"METADATA", "entry_points.txt", "top_level.txt"}

type Target = Literal["aarch64", "host"]


@dataclass(frozen=True, slots=True)
class Asset:
    """A built package. `warning`: why it should not be deployed to AWS, empty when it may be."""

    directory: Path
    is_x86: bool = False
    warning: str = ""


def ensure(*, local: bool) -> Asset:
    """The package for a synth, with today's sources. Never reaches for the network."""
    if local:
        return Asset(build("host"), is_x86=platform.machine().lower() in ("x86_64", "amd64"))
    if _packages("aarch64").is_dir():
        return Asset(build("aarch64"), warning=_compiled_warning())
    warning = "synthesized with the packages of this machine; run `make asset` before you deploy to AWS"
    return Asset(build("host"), warning=warning)


def build(target: Target) -> Path:
    """Put `build/asset-<target>` together: packages from the cache, or made now; sources as they stand."""
    packages = _packages(target)
    if not packages.is_dir():
        _make(packages, _install_for_lambda if target == "aarch64" else _copy_installed)
    directory = BUILD / f"asset-{target}"
    _make(directory, lambda fresh: _assemble(packages, fresh))
    return directory


def size_mb(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1_000_000


def _packages(target: Target) -> Path:
    """Where a target's packages are cached: another lock file or interpreter is another place."""
    seed = LOCK.read_bytes() + repr((sys.version_info[:2], UNUSED)).encode()
    return BUILD / f"packages-{target}-{hashlib.sha256(seed).hexdigest()[:12]}"


def _make(directory: Path, fill: object) -> None:
    """Fill a fresh directory and put it in place at once, so that an interrupted build leaves nothing half done."""
    assert callable(fill)
    fresh = directory.with_name(f".{directory.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        fill(fresh)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _assemble(packages: Path, fresh: Path) -> None:
    shutil.copytree(packages, fresh, copy_function=os.link, dirs_exist_ok=True)
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for source in sorted((ROOT / "functions").iterdir()):
        if source.is_dir() and not source.name.endswith((".egg-info", "__pycache__")):
            shutil.copytree(source, fresh / source.name, ignore=skipped)
            _compile(fresh / source.name, fresh)
    for name in NOT_SHIPPED:
        part = fresh / "tickwork" / name
        shutil.rmtree(part) if part.is_dir() else part.unlink()


def _compile(directory: Path, root: Path) -> None:
    """Byte code that is used as it is: Lambda cannot write its own, and the sources never change under it."""
    if sys.version_info[:2] != RUNTIME:
        return
    compileall.compile_dir(
        directory,
        quiet=1,
        stripdir=str(root),
        prependdir="/var/task",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def _compiled_warning() -> str:
    if sys.version_info[:2] == RUNTIME:
        return ""
    wanted, found = ".".join(map(str, RUNTIME)), platform.python_version()
    return f"not compiled: the functions run Python {wanted}, this is {found}; build with {wanted} for fast cold starts"


# --- packages ---------------------------------------------------------------------------------------------------


def pinned() -> Iterator[tuple[str, str]]:
    """(name, version) of each package in the lock file."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if found:
            yield found[1], found[2]


def _install_for_lambda(fresh: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-compile"),
        *("--only-binary=:all:", "--platform", "manylinux2014_aarch64", "--implementation", "cp"),
        *("--python-version", ".".join(map(str, RUNTIME)), "--target", str(fresh), "-r", str(LOCK)),
    ]
    try:
        subprocess.run(command, check=True, timeout=PIP_TIMEOUT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise SystemExit(
            f"the packages for Lambda's arm64 could not be installed ({error}); "
            "check that pip reaches its index, or use --host for a local endpoint"
        ) from error
    shutil.rmtree(fresh / "bin", ignore_errors=True)
    _trim(fresh)
    _compile(fresh, fresh)


def _copy_installed(fresh: Path) -> None:
    for name, version in pinned():
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise SystemExit(f"{name} is not installed here; run `make setup`") from None
        if distribution.version != version:
            raise SystemExit(
                f"{name} {distribution.version} is installed, requirements/lambda.lock pins {version}; run `make setup`"
            )
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (fresh / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(distribution.locate_file(file)), fresh / file)
    _trim(fresh)
    _compile(fresh, fresh)


def _trim(packages: Path) -> None:
    """Leave out what is not used, and installers' notes: they differ between machines, and so change the hash."""
    for name in UNUSED:
        shutil.rmtree(packages / name, ignore_errors=True)
    for metadata in packages.glob("*.dist-info"):
        for path in list(metadata.iterdir()):
            if path.name in _KEPT_METADATA or path.name.lower().startswith("licen"):
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.asset", description=__doc__)
    parser.add_argument("--host", action="store_true", help="for this machine, from what is installed, offline")
    target: Target = "host" if parser.parse_args(arguments).host else "aarch64"
    directory = build(target)
    size = size_mb(directory)
    print(f"{directory.relative_to(ROOT)}: {size:.1f} MB unzipped (at most {SIZE_MB_MAX})")
    if warning := _compiled_warning():
        print(warning)
    if size > SIZE_MB_MAX:
        raise SystemExit("the package has grown too large; see what came in with `du -sh build/asset-*/*`")


if __name__ == "__main__":
    main()
