"""A session of several cells: the variable names them, and there is a scanner for each slice of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fakes import fake_ports
from tickwork.core.ledger.cells import CellShape
from tickwork.local import windows
from tickwork.local.session import Session
from tickwork.ports import Layout
from tickwork.settings import BadSetting


def test_the_cells_of_a_session_are_those_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def session() -> Session:
        return Session(port=1, endpoint_port=2, state=tmp_path)

    assert session()._settings.cells == ""
    monkeypatch.setenv("TICKWORK_CELLS", "side:2/1")
    assert session()._settings.layout().others == (CellShape("side", 2, 1),)
    monkeypatch.setenv("TICKWORK_CELLS", "side")
    with pytest.raises(BadSetting):
        session()


def test_every_slice_of_every_cell_has_a_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Callable[[], object]] = []
    monkeypatch.setattr(windows, "run_together", run.extend)
    windows.Windows(fake_ports(layout=Layout(slices=2, others=(CellShape("side", 4, 3),)))).run()
    assert len(run) == 2 + 2 + 3, "ticker, reconciler, scanners"
