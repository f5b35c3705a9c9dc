"""The screen of `tickwork dev`, shown what somebody has sent on purpose: it goes on, and shows it as text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.support.hostile_text import ALL_AT_ONCE, CORPUS, MARKUP, orders_in
from tickwork.local.plain import plain
from tickwork.local.screen import Screen

RUN = {
    "run_id": "r1", "occurrence": "payments:nightly@2026-12-01T02:00:00Z", "fire_at": "2026-12-01T02:00:00Z",
    "attempt": 1, "status": "skipped", "reason": None, "start_lag_s": 0.5,
}  # fmt: skip


class Terminal(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def screen_on(file: io.StringIO, runs: list[dict[str, Any]], *, is_terminal: bool) -> Screen:
    screen = Screen("http://127.0.0.1:1")
    screen._console = Console(
        file=file, soft_wrap=True, width=4_000, force_terminal=is_terminal, color_system=None, legacy_windows=False
    )
    screen._client.get = lambda *_, **__: {"runs": runs}  # type: ignore[method-assign]
    return screen


def shown(runs: list[dict[str, Any]], *, is_terminal: bool = False) -> str:
    file = Terminal(is_terminal=is_terminal)
    screen = screen_on(file, runs, is_terminal=is_terminal)
    screen.update()
    if is_terminal:
        screen.close()
    return file.getvalue()


@pytest.mark.parametrize("text", CORPUS, ids=ascii)
def test_a_reason_is_shown_as_it_was_written_and_as_one_row(text: str) -> None:
    found = shown([RUN | {"reason": f"paused{text}"}])
    assert f"(paused{plain(text)})" in found
    assert not orders_in(found)
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize("field", ["occurrence", "reason", "status"])
def test_every_text_of_a_run_is_only_text_on_a_terminal(field: str) -> None:
    clean = shown([RUN | {"reason": "x"}], is_terminal=True)
    found = shown([RUN | {"reason": "x"} | {field: f"a~b{ALL_AT_ONCE}"}], is_terminal=True)
    assert "[bold" in found
    assert set(orders_in(found)) <= set(orders_in(clean)), "only the orders with which rich draws"
    assert "\x1b]" not in found
    assert len(found.splitlines()) == len(clean.splitlines())


@pytest.mark.parametrize("text", MARKUP)
def test_what_the_session_says_is_no_markup(text: str) -> None:
    file = Terminal(is_terminal=False)
    screen_on(file, [], is_terminal=False).say(f"the log is {text}")
    assert file.getvalue() == f"tickwork  the log is {text}\n"


def test_a_run_that_cannot_be_shown_is_said_once_and_ends_nothing() -> None:
    file = Terminal(is_terminal=False)
    screen = screen_on(file, [{"run_id": "r1", "status": "dead"}], is_terminal=False)
    screen.update()
    screen.update()
    assert file.getvalue().count("cannot be shown") == 1


def test_a_terminal_that_has_gone_ends_nothing() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    screen = screen_on(Gone(is_terminal=False), [RUN], is_terminal=False)
    screen.say("on")
    screen.update()
    screen.close()


def test_what_to_try_next_shows_the_key_only_where_one_is_asked_for() -> None:
    for key in ("", "tw_payments_x"):
        file = Terminal(is_terminal=False)
        screen = screen_on(file, [], is_terminal=False)
        if key:
            screen.use_key(key)
        screen.hints(demo=True)
        asked = [line for line in file.getvalue().splitlines() if "TICKWORK_API_KEY" in line]
        assert len(asked) == (3 if key else 0), "the export, and the two calls by curl"
        assert "tw_payments_x" not in file.getvalue()


TIMER = "payments:t~main~0001~1793318401~8c5c0e62fa878924440c"


@pytest.mark.parametrize("name", [RUN["occurrence"], TIMER])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_each_run_is_shown_by_a_name_that_commands_take(name: str, is_terminal: bool) -> None:
    assert name in shown([RUN | {"occurrence": name}], is_terminal=is_terminal)
