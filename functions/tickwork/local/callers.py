"""Who may call a server of ours on this machine: a program on it, and no page that a browser has open.

Anybody can make a browser send requests to 127.0.0.1, and make a host name of his own lead there. Owns how such
requests are told from others; knows no route. Protects the person whose machine it is: a page neither reads nor changes
anything.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
JSON = "application/json"


def name_of(host: str) -> str:
    """A Host header without its port, in lower case."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host.strip().lower()


def is_own_host(host: str, port: int) -> bool:
    """Whether a Host header names this machine and the server's port."""
    own = {f"{name}:{port}" for name in NAMES} | (NAMES if port == 80 else set())
    return host.strip().lower() in own


def why_not(headers: Mapping[str, str], port: int) -> str | None:
    """What speaks against a caller; None when nothing does. A page that this server itself has served may call it.

    A program need not send any of these headers; a browser sends them without asking its page.
    """
    host = headers.get("host", "")
    if not is_own_host(host, port):
        return f"the Host header names {host!r}: call it by http://127.0.0.1:{port} or http://localhost:{port}"
    origin = headers.get("origin")
    if origin is not None and origin.strip().lower() != f"http://{host.strip().lower()}":
        return f"a page of {origin!r} asks for it: call it from a program, which sends no Origin header"
    if headers.get("sec-fetch-site", "none").strip().lower() not in ("none", "same-origin"):
        return "a page of another site asks for it (Sec-Fetch-Site): call it from a program"
    return None


def is_json(content_type: str) -> bool:
    """Whether a body is said to be JSON: what a form or a plain-text request of a page cannot say."""
    return content_type.partition(";")[0].strip().lower() == JSON
