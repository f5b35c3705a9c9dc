"""What the API says of itself: that it is there, and what it can do."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tickwork.api.answers import HealthAnswer
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.routing import Call, Route
from tickwork.core.instants import iso_ms

DOCUMENT = Path(__file__).with_name("openapi.json")
"""Written by docs/generate.py from the table of routes, and served as it is: a request makes nothing of it anew."""


def health(call: Call[NoBody, NoQuery]) -> tuple[int, HealthAnswer]:
    """Whether the API answers, and its clock."""
    return 200, {"status": "ok", "now": iso_ms(call.ports.clock.now_ms())}


def openapi_document(_: Call[NoBody, NoQuery]) -> tuple[int, dict[str, Any]]:
    """This document."""
    return 200, _document()


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return found


ROUTES = (
    Route("GET", "/health", health, NoBody, NoQuery, HealthAnswer),
    Route("GET", "/openapi.json", openapi_document, NoBody, NoQuery, dict[str, Any]),
)
