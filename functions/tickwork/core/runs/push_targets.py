"""Where a push may go: http(s) to public addresses only (W9).

A URL is judged when it is registered and again at every push, and there by each address that its name resolves to
at that moment: names change, and a name that is public today may point into our own network tomorrow.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from tickwork.core.errors import InvalidField

URL_CHARS_MAX = 500
_PORTS = {"http": 80, "https": 443}
_NOT_PUBLIC = frozenset({"local", "internal", "localhost", "localdomain"})
"""Last labels of names that are nobody's in public. (One that begins with a digit is an address in an old spelling.)"""
_NAME_CHARS_MAX, _LABEL_CHARS_MAX = 253, 63
_PRIVILEGED = 1_024
_NAT64 = ip_network("64:ff9b::/96")
_RULE = "give an http(s) URL of a public host, such as https://hooks.example.com/orders"


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in parts. `path` has the query with it, and never a fragment."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def resource(self) -> str:
        """The concurrency tag that all pushes of a team to this origin share."""
        return f"push-{hashlib.sha256(self.origin.encode()).hexdigest()[:16]}"

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


def parse_target(url: str, *, allow_private: bool = False) -> Target:
    """The parts of a URL that may be pushed to; InvalidField saying what is wrong with it."""
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _refused("it is too long, or has characters that a URL has not")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("it cannot be read as a URL") from None
    if parts.scheme not in _PORTS:
        raise _refused("only http and https are pushed to")
    if parts.username is not None or parts.password is not None:
        raise _refused("it carries a user name or password")
    host = (parts.hostname or "").rstrip(".")
    if not host or "%" in host:
        raise _refused("it names no host")
    target = Target(parts.scheme, host, port or _PORTS[parts.scheme], _path_of(parts.path, parts.query))
    if not allow_private:
        _check_public(target)
    return target


def _path_of(path: str, query: str) -> str:
    return (path or "/") + (f"?{query}" if query else "")


def _check_public(target: Target) -> None:
    if target.port < _PRIVILEGED and target.port not in _PORTS.values():
        raise _refused(f"port {target.port} is not one of the web")
    try:
        why = why_refused(target.host)
    except ValueError:
        last = target.host.rpartition(".")[2]
        labels = target.host.split(".")
        is_name = len(target.host) <= _NAME_CHARS_MAX and all(0 < len(label) <= _LABEL_CHARS_MAX for label in labels)
        if not is_name or len(labels) < 2 or last in _NOT_PUBLIC or last[:1].isdigit():
            raise _refused("its host is not a public name") from None
        return
    if why is not None:
        raise _refused(f"its host is {why}")


def why_refused(address: str) -> str | None:
    """Why nothing is sent to an IP address; None when it is public. ValueError when it is no address."""
    ip = _plain(ip_address(address.partition("%")[0]))
    if isinstance(ip, IPv6Address) and (ip.sixtofour or ip.teredo):
        return "a tunnel address"
    if ip.is_link_local:
        return "a link-local address (instance metadata is there)"
    if ip.is_loopback:
        return "a loopback address"
    if ip.is_multicast or ip.is_reserved or ip.is_unspecified:
        return "not an address of one host"
    return None if ip.is_global else "a private address"


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip


def _refused(detail: str) -> InvalidField:
    return InvalidField(detail, field="target.url", remedy=_RULE)
