"""Raises a signal into the thread that runs a job, and never into anything else.

CPython delivers an asynchronous exception at some later bytecode of the target thread. So there are two dangers:
the job's function may have ended when the signal is sent, or when it arrives. Both are closed by `Stoppable.run`:

- sending needs the gate, without waiting for it. The job's thread takes the gate when the function has ended and
  never gives it back: from then on nothing can be sent.
- what was sent and has not arrived is then withdrawn. What arrives between the function's end and that is caught
  there: at most one signal is ever sent, so one repetition is enough.

A thread that waits in C (a socket without a timeout, `time.sleep`) gets the signal when that call returns.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from tickwork.worker.context import StopFlag, StopJob


def _set_async(thread_id: int, signal: type[StopJob] | None) -> None:
    target = None if signal is None else ctypes.py_object(signal)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), target)


class Stoppable:
    """One call of a job function that other threads can stop."""

    def __init__(self, flag: StopFlag) -> None:
        self.flag = flag
        # Reentrant: should a signal strike between taking it and knowing that it is taken, it is taken once more.
        self._gate = threading.RLock()
        self._thread_id = 0
        self._sent = False
        self._stop_elsewhere: Callable[[], object] | None = None

    def run[T](self, function: Callable[[], T]) -> T:
        """The function's result. Raises what it raises; a signal that was sent is either raised here or gone."""
        struck: StopJob | None = None
        self._thread_id = threading.get_ident()
        try:
            self._raise_if_told()
            result = function()
        except StopJob as signal:
            struck = signal
        finally:
            late = self._close()
        told = struck or late
        if told is not None:
            raise told
        return result

    def _raise_if_told(self) -> None:
        """An attempt that was told to stop before its function began does not begin it."""
        if self.flag.signal is not None:
            raise self.flag.signal

    def stop_by(self, stop: Callable[[], object] | None) -> None:
        """Stop by calling this instead: an event loop is told to cancel its task."""
        self._stop_elsewhere = stop

    def stop(self, signal: type[StopJob]) -> bool:
        """Tell the job to stop, from another thread. False when it has ended or was told before."""
        self.flag.set(signal)
        if not self._gate.acquire(blocking=False):
            return False
        try:
            # Whoever comes through the gate sends, also if another was the first to set the flag: that one may have
            # found the gate taken, by this very call. What the flag says by now is sent, for it may say more.
            if self._sent or not self._thread_id:
                return False
            self._sent = True
            if self._stop_elsewhere is not None:
                self._stop_elsewhere()
            else:
                _set_async(self._thread_id, self.flag.signal or signal)
            return True
        finally:
            self._gate.release()

    def _close(self) -> StopJob | None:
        """Nothing can be sent after this, and nothing that was sent arrives; the signal, if it came just here."""
        late: StopJob | None = None
        while True:
            try:
                self._gate.acquire()
                _set_async(self._thread_id, None)
                return late
            except StopJob as signal:
                late = signal
