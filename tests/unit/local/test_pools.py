"""A session has the pools that it is asked for, and forgets none that its state has had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwork.local.pools import BadWorker, noted, pool_and_app
from tickwork.settings import BadSetting, Settings


def pools(settings: Settings) -> set[str]:
    return set(settings.layout().pools)


def test_a_first_session_has_default_push_and_what_it_is_asked_for(tmp_path: Path) -> None:
    assert pools(noted(tmp_path / "state", [], Settings())) == {"default", "push"}
    assert pools(noted(tmp_path / "other", ["orders", "orders", "mail"], Settings())) == {
        "default", "push", "orders", "mail",
    }  # fmt: skip


def test_a_pool_stays_when_a_later_session_does_not_name_it(tmp_path: Path) -> None:
    noted(tmp_path, ["orders"], Settings())
    noted(tmp_path, ["mail"], Settings())
    assert pools(noted(tmp_path, [], Settings())) == {"default", "push", "orders", "mail"}


def test_a_state_of_an_older_version_keeps_the_pools_it_had(tmp_path: Path) -> None:
    (tmp_path / "aws").mkdir()
    assert pools(noted(tmp_path, [], Settings())) == {"default", "push", "payments"}


def test_a_name_that_is_none_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="named by --pool and --worker"):
        noted(tmp_path, ["Orders!"], Settings())
    assert pools(noted(tmp_path, [], Settings())) == {"default", "push"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders=shop.jobs:app", ("orders", "shop.jobs:app")),
        ("jobs.py:app", ("default", "jobs.py:app")),
    ],
)
def test_a_worker_says_its_pool_and_app(text: str, found: tuple[str, str]) -> None:
    assert pool_and_app(text) == found


@pytest.mark.parametrize("text", ["orders", "orders=", "orders=jobs", ""])
def test_a_worker_without_an_app_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadWorker, match=r"orders=shop\.jobs:app"):
        pool_and_app(text)
