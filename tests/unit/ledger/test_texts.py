"""Which characters travel: what SQS and UTF-8 take, and what becomes of the others."""

from __future__ import annotations

import json

import pytest

from tests.support.fakes import NOW_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.messages import ReadyMessage, compact_json, read_ready
from tickwork.core.ledger.work import Work
from tickwork.core.texts import carriable, cleaned, is_carried

KEY = LedgerKey("main", 0, NOW_MS, "shop", "x", NOW_MS)


def _xml_takes(character: str) -> bool:
    """`Char` of XML 1.0, as its section 2.2 writes it; which is what SQS documents for a body."""
    code = ord(character)
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def test_exactly_what_xml_takes_is_carried() -> None:
    wrong = [code for code in range(0x110000) if is_carried(chr(code)) != _xml_takes(chr(code))]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    ["\ufffe", "a\uffffb", "\x7f\x80\x9f", "\ufdd0", "\U0001fffe\U0010ffff", "\x00\x1f\n\t", "\\ufffe", '"\ufffe"'],
)
@pytest.mark.parametrize("is_name", [True, False])
def test_a_payload_of_any_text_is_sent_and_arrives_unchanged(text: str, is_name: bool) -> None:
    payload = {text: [text]} if is_name else [text, {"n": text}]
    message = ReadyMessage(KEY, Work("default", "job", compact_json(payload)), 1, NOW_MS, "test").to_json()
    assert is_carried(message)
    message.encode()
    assert read_ready(message)["payload"] == payload


def test_so_does_a_handler_or_a_trace_with_them() -> None:
    work = Work("default", "settle\uffff", traceparent="00-\ufffe")
    body = ReadyMessage(KEY, work, 1, NOW_MS, "test\uffff").to_json()
    assert is_carried(body)
    assert json.loads(body)["handler"] == "settle\uffff"


def test_text_that_travels_is_left_as_it_is() -> None:
    for text in ('{"a":"gr\u00fc\u00df \U0001f600 \\u0000"}', "[]", '"\u2028"'):
        assert carriable(text) is text or carriable(text) == text


def test_a_cut_stays_within_its_length() -> None:
    assert cleaned("\ud800" * 10, 10) == "\\ud800\\ud8"
    assert cleaned("abc", 2) == "ab"
