"""A process that ends with the one that started it, whatever happened to that one: `python -m tickwork.local.tether`.

A process that was killed cannot end its children, so each child looks after that itself: the kernel tells it (Linux),
and a thread looks at its parent's number (everywhere). The standard library is all it imports: it also runs in the
endpoint's interpreter. Protects that no part of a session outlives it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from contextlib import suppress

LOOKS_EVERY_S = 0.5
GRACE_S = 3.0
"""What a part gets to end in order once nobody waits for it any more."""
_PR_SET_PDEATHSIG = 1


def end_with(parent: int, grace_s: float = GRACE_S) -> None:
    """From now on: SIGTERM when the parent has gone, and the end without more ado when that did not do it."""
    ask_kernel(signal.SIGTERM)
    threading.Thread(target=_watch, args=(parent, grace_s), daemon=True, name="tether").start()


def ask_kernel(signum: int) -> None:
    """A signal to this process when its parent ends, where the kernel knows that (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # the thread watches, too
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


def _watch(parent: int, grace_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(LOOKS_EVERY_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os._exit(1)


def main() -> None:
    """PARENT GRACE_S MODULE ARGUMENT...: run a module as `python -m` does, tethered."""
    _, parent, grace_s, module, *arguments = sys.argv
    end_with(int(parent), float(grace_s))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
