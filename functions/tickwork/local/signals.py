"""Signals as JSON lines on stderr, for processes that are not Lambdas."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from typing import Any

from tickwork.local.plain import plain_json

log = logging.getLogger("tickwork")


class LineSignals:
    """Log lines at once; counters are kept and can be read, measurements are dropped."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, metric: str, n: int = 1, **labels: str) -> None:  # noqa: ARG002
        self.counts[metric] += n

    def observe(self, metric: str, value: float, **labels: str) -> None:
        """Nothing reads measurements here: lag is in the run history."""

    def log(self, action: str, **facts: object) -> None:
        log.info(action, extra={"facts": facts})


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "action": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return plain_json(line, default=str)


def log_lines_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
