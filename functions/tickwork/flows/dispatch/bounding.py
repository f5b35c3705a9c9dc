"""What bounds a window: what its cell may dispatch in a second; in that of P2, a fifth while others have a backlog.

A cell is that of bulk when P2 is placed in it and nothing else is (`core/ledger/cells`); an environment whose P2 lies
nowhere of its own asks for nothing. Protects cursor-honest by leaving what is over the bound to the rows of its teams,
as `sharing` does; and the others' lag: a word that cannot be read is taken as said.
"""

from __future__ import annotations

from tickwork.core.dispatch import bounds
from tickwork.core.errors import WorldError
from tickwork.core.ledger.cells import ALL, of_lane, placed_in, placement_key
from tickwork.core.ledger.lanes import P0, P1, P2
from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.writes import Committed
from tickwork.flows.dispatch.serving import Serving
from tickwork.flows.dispatch.stopwatch import QUERY
from tickwork.flows.ledger import remembered
from tickwork.ports import Layout, Ports


def bound(it: Serving) -> None:
    """Say what a window may dispatch, before it fires the first thing."""
    ports, layout = it.ports, it.ports.layout
    it.shares.is_bulk = layout.cell != layout.home and bulk_cell(ports) == layout.cell
    limits = [layout.cell_dispatch_per_s] if layout.cell_dispatch_per_s else []
    if it.shares.is_bulk and _are_others_pressed(it):
        limits.append(bounds.bulk_per_s(layout.slice_capacity_per_s, layout.slices, _slices_beside(layout)))
    if limits:
        it.shares.per_s = min(limits)
        before = it.holding.lease.done
        it.shares.most = bounds.allowed(it.shares.per_s, layout.slices, it.slice_no, before, it.until)


def next_try(it: Serving) -> int:
    """The second of the next window that may serve what is left of teams."""
    if not it.shares.per_s:
        return it.until + 1
    return bounds.next_allowed(it.shares.per_s, it.ports.layout.slices, it.slice_no, it.until)


def tell(it: Serving, *, is_pressed: bool) -> None:
    """At the end of a window: what its bound has held back is counted; and one that is not of bulk, and has more than
    it could dispatch, tells the cell of bulk."""
    if it.shares.held_back:
        it.ports.signals.count("scheduler.held_back_total", it.shares.held_back, slice=it.holding.lease.slice)
    if is_pressed and it.ports.layout.others and bulk_cell(it.ports) not in ("", it.ports.layout.cell):
        _tell_pressed(it)


def bulk_cell(ports: Ports) -> str:
    """The cell in which P2 is placed by itself; '' where it lies with others, or that cannot be read."""
    if not ports.layout.others:
        return ""
    keys = [placement_key(of) for of in (of_lane(P2), ALL, of_lane(P0), of_lane(P1))]
    try:
        rows = remembered.read(ports, keys)
    except WorldError as error:
        ports.signals.log("placements_unread", error=repr(error))
        rows = [remembered.known(ports, key) for key in keys]
    own, *others = map(placed_in, rows)
    return "" if own in (ports.layout.home, *others) else own


def _slices_beside(layout: Layout) -> int:
    return sum(shape.slices for shape in layout.others)


def _are_others_pressed(it: Serving) -> bool:
    try:
        item = it.ports.store.get(PASSES, bounds.load_key(it.ports.layout.home))
    except WorldError as error:
        it.ports.signals.log("load_unread", slice=it.holding.lease.slice, why=repr(error))
        return True
    it.watch.lap(QUERY)
    return bounds.pressed_until(item) > it.now_s


def _tell_pressed(it: Serving) -> None:
    """It is tried once: what comes of it is bulk that goes on at full pace until the next window says so."""
    ports, home = it.ports, it.ports.layout.home
    try:
        item = ports.store.get(PASSES, bounds.load_key(home))
        if not bounds.is_worth_telling(item, it.now_s):
            return
        if isinstance(ports.store.commit([bounds.press(home, item, it.now_s)]), Committed):
            ports.signals.count("scheduler.bulk_braked_total")
            ports.signals.log("bulk_braked", slice=it.holding.lease.slice, until_s=it.now_s + bounds.PRESSED_S)
    except WorldError as error:
        ports.signals.log("load_untold", slice=it.holding.lease.slice, why=repr(error))
