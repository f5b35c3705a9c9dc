"""The program that runs as the AWS endpoint: MiniStack's own, behind the guard, its state saved while it runs.

Started by `endpoint.py` with the endpoint's interpreter, in which neither tickwork nor anything it needs is installed.
Nothing of MiniStack is changed on disk: its application is wrapped, and its loading of state is watched.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

TABLES = "dynamodb"
"""Saved before all else: a state without its tables is one that somebody has lost."""
SOURCES = str(Path(__file__).parents[2])
PREDECESSOR_WITHIN_S = 20.0
"""An endpoint whose session was killed saves before it ends."""


def main() -> None:
    sys.path.insert(0, SOURCES)
    from tickwork.local import abandoned, guard, snapshots, tether

    # What can be imported here must not be found by chance by what the endpoint loads.
    sys.path.remove(SOURCES)
    os.umask(0o077)
    tether.end_with(int(os.environ.pop("TICKWORK_PARENT")), snapshots.SAVES_WITHIN_S)
    access_key = os.environ.pop("TICKWORK_ENDPOINT_KEY", None)

    from ministack import app as emulator  # type: ignore[import-not-found]
    from ministack.core import persistence  # type: ignore[import-not-found]

    emulator.app = abandoned.polls_end_with_callers(emulator.app)
    if not persistence.PERSIST_STATE:
        emulator.app = guard.guarded(emulator.app, access_key)
        emulator.main()
        return
    folder = Path(persistence.STATE_DIR)
    lock = only_one_on(folder)
    load, loggers = emulator._load_persisted_state, (emulator.logger, persistence.logger)

    def load_or_end() -> None:
        with snapshots.Errors(loggers) as errors:
            emulator.load_state = snapshots.read_all(folder, persistence.load_state, errors).get
            if TABLES not in (found := [path.stem for path in folder.glob("*.json")]) and found:
                errors.lines.append(f"{TABLES}.json is missing beside {found[0]}.json")
            if not errors.lines:
                load()
        if errors.lines:
            snapshots.refuse_to_start(folder, errors.lines)

    def save() -> bool:
        _hurry()
        with snapshots.Errors(loggers) as errors:
            states = emulator._build_persistence_save_dict()
            for name in sorted(states, key=lambda name: (name != TABLES, name)):
                persistence.save_all({name: states[name]})
        return not errors.lines

    emulator._load_persisted_state = load_or_end
    saver = snapshots.Saver(folder, save)
    emulator.app = guard.guarded(saving(emulator.app, saver), access_key, saver.call)
    try:
        emulator.main()
    finally:
        lock.close()


def _hurry() -> None:
    """Called in the copy that saves and ends, where nothing changes what is read: it needs no copy of it in memory, and
    a text in one piece is made several times as fast as in a stream. A state is saved in about a third of the time."""
    copy.deepcopy = lambda value, memo=None: value  # type: ignore[assignment,misc]  # noqa: ARG005
    json.dump = lambda value, file, **how: file.write(json.dumps(value, **how))


def saving(app: Any, saver: Any) -> Any:
    """The application, with the saver started after its state was loaded, and stopped before it saves for the last
    time."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        async def received() -> Any:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await saver.stop()
            return message

        async def sent(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                saver.start()
            await send(message)

        await app(scope, received, sent)

    return run


def only_one_on(folder: Path) -> IO[str]:
    """A lock on the state: of two endpoints on it, the one that ends last would overwrite what the other saved."""
    lock = (folder / "lock").open("a", encoding="utf-8")
    deadline_s = time.monotonic() + PREDECESSOR_WITHIN_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline_s:
                sys.exit(f"another endpoint uses the state in {folder}")
            time.sleep(0.1)
        else:
            return lock


if __name__ == "__main__":
    main()
