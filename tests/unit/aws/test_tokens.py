"""An issuer's documents over real sockets: found, and believed only when they are the issuer's own."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.issuers import public
from tests.support.site import Site, served
from tickwork.aws import tokens
from tickwork.aws.tokens import DISCOVERY, DOCUMENT_BYTES_MAX, JwtDesk, read_document
from tickwork.core.access.issuers import Issuer

KEYS = {"keys": [public("ES256", "first")]}


def _issuer(site: Site, keys_url: str = "") -> Issuer:
    return Issuer(site.url, "tickwork", (), keys_url)


@pytest.fixture
def site() -> Iterator[Site]:
    with served(Site()) as site:
        yield site


@pytest.fixture
def unvouched(tmp_path: Path) -> Iterator[Site]:
    """A site with a certificate that nobody knows."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=9))
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "site.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with served(Site({"/keys": KEYS}), context) as site:
        yield site


def test_the_keys_are_found_by_the_issuers_discovery_document(site: Site) -> None:
    site.documents = {DISCOVERY: {"issuer": site.url, "jwks_uri": f"{site.url}/keys"}, "/keys": KEYS}
    assert JwtDesk().published(_issuer(site)) == KEYS
    assert site.asked == [DISCOVERY, "/keys"]


def test_keys_that_the_setting_names_need_no_discovery(site: Site) -> None:
    site.documents = {"/v1/keys?a=b": KEYS}
    assert JwtDesk().published(_issuer(site, f"{site.url}/v1/keys?a=b")) == KEYS
    assert site.asked == ["/v1/keys?a=b"]


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://login.example.com", "jwks_uri": "URL/keys"},
        {"jwks_uri": "URL/keys"},
        {"issuer": "URL"},
        {"issuer": "URL", "jwks_uri": "http://192.0.2.1/keys"},
        {"issuer": "URL", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "URL", "jwks_uri": ["URL/keys"]},
        [],
        "text",
    ],
)
def test_a_discovery_document_of_somebody_else_or_that_leads_elsewhere_is_not_followed(site: Site, said: Any) -> None:
    site.documents = {DISCOVERY: json.loads(json.dumps(said).replace("URL", site.url)), "/keys": KEYS}
    with pytest.raises(ValueError):
        JwtDesk().published(_issuer(site))
    assert site.asked == [DISCOVERY]


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/keys"}, b""),
        (301, {"Location": "https://evil.example/keys"}, b""),
        (500, {}, b"{}"),
        (404, {}, b"{}"),
        (200, {}, b"<html>"),
        (200, {}, b"\xff\xfe"),
        (200, {}, b""),
        (200, {"Content-Length": "100"}, b'{"keys":'),
        (200, {}, b"[" * 100_000),
    ],
    ids=lambda one: f"{one[0]} {one[2][:6]!r}",
)
def test_what_is_no_whole_document_is_an_error_and_no_redirect_is_followed(site: Site, answer: Any) -> None:
    site.documents = {"/there": answer, "/keys": KEYS}
    with pytest.raises((OSError, ValueError)):
        read_document(f"{site.url}/there")
    assert site.asked == ["/there"]


def test_a_document_without_end_is_cut_off_by_its_size(site: Site) -> None:
    site.documents = {"/keys": (200, {}, [b" " * 16_384] * (2 + DOCUMENT_BYTES_MAX // 16_384))}
    with pytest.raises(ValueError, match="sends more than"):
        read_document(f"{site.url}/keys")


def test_a_document_that_drips_is_cut_off_by_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.documents = {"/keys": (200, {}, [b" "] * 50)}
    now = iter(range(0, 1_000, 5))

    class Clock:
        monotonic = staticmethod(lambda: float(next(now)))
        sleep = staticmethod(time.sleep)

    monkeypatch.setattr(tokens, "time", Clock)
    with pytest.raises(TimeoutError):
        read_document(f"{site.url}/keys")


def test_a_head_that_drips_is_cut_off_too_and_whoever_read_it_ends() -> None:
    """Each of its bytes comes in time. The wait for all of them is what a function has."""
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            there, _ = listening.accept()
            with there, suppress(OSError):
                there.recv(1_000)
                there.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stopped.wait(0.02):
                    there.sendall(b"x")

        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        before = set(threading.enumerate())
        with pytest.raises(TimeoutError):
            read_document(f"http://127.0.0.1:{listening.getsockname()[1]}/keys", within_s=0.2)
        dripping.join(10)  # its reader has hung up
        assert not dripping.is_alive()
        for reader in set(threading.enumerate()) - before:
            reader.join(10)
            assert not reader.is_alive()
        stopped.set()


def test_a_name_of_many_addresses_of_which_none_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def never(*_: object, **__: object) -> None:
        asked.wait(20)
        raise OSError("nobody is there")

    monkeypatch.setattr(socket, "create_connection", never)
    try:
        with pytest.raises(TimeoutError):
            read_document("https://login.example.org/keys", within_s=0.1)
    finally:
        asked.set()


def test_a_site_whose_certificate_nobody_vouches_for_is_not_believed(unvouched: Site) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        read_document(f"{unvouched.url}/keys")
    assert unvouched.asked == []


def test_a_site_that_is_not_there_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError):
        read_document("http://127.0.0.1:9/keys")


def test_the_library_is_imported_by_the_first_token_and_not_before() -> None:
    """What every cold start would pay for."""
    import subprocess
    import sys

    script = (
        "import sys, tickwork.aws.wiring, tickwork.api.gate, tickwork.api.door\n"
        "assert not {'jwt', 'cryptography'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
