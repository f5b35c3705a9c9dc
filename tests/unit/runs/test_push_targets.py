"""Where a push may go: http(s) to public addresses, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.errors import InvalidField
from tickwork.core.runs.push_targets import parse_target, why_refused


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/x",
        "file:///etc/passwd",
        "gopher://example.com",
        "https://user:secret@example.com/",
        "https://",
        "https:///path",
        "//example.com/",
        "https://localhost/",
        "https://intranet/",
        "https://db.internal/",
        "https://printer.local/",
        "https://hooks..example.com/",
        "https://" + "a" * 64 + ".example.com/",
        "https://" + "a." * 127 + "com/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://x.0x7f/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1%25eth0]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::]/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "https://example.com:22/",
        "https://example.com:99999/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/a b",
        "https://exa\tmple.com/",
        "https://ex\u00e4mple.com/",
        "https://example.com/" + "x" * 500,
    ],
)
def test_what_is_no_public_web_address_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parse_target(url)
    assert refused.value.field == "target.url"
    assert refused.value.remedy


def test_a_public_url_is_taken_apart() -> None:
    target = parse_target("https://Hooks.Example.com./orders?x=1#part")
    assert (target.scheme, target.host, target.port, target.path) == ("https", "hooks.example.com", 443, "/orders?x=1")
    assert target.host_header == "hooks.example.com"
    assert parse_target("http://8.8.8.8:8080").host_header == "8.8.8.8:8080"
    assert parse_target("https://[2606:4700::1111]/").host_header == "[2606:4700::1111]"


def test_all_urls_of_an_origin_share_its_cap() -> None:
    first = parse_target("https://hooks.example.com/a")
    assert first.resource == parse_target("https://hooks.example.com:443/b?c").resource
    assert first.resource != parse_target("http://hooks.example.com/a").resource


@given(st.ip_addresses())
def test_an_address_is_public_exactly_when_it_is_global_unicast(address: object) -> None:
    refused = why_refused(str(address))
    if refused is None:
        assert address.is_global  # type: ignore[attr-defined]
        assert not address.is_multicast  # type: ignore[attr-defined]


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_in_ipv6_clothes_is_judged_as_itself(number: int) -> None:
    from ipaddress import IPv4Address

    plain = str(IPv4Address(number))
    assert (why_refused(f"::ffff:{plain}") is None) == (why_refused(plain) is None)
    assert (why_refused(f"64:ff9b::{plain}") is None) == (why_refused(plain) is None)
