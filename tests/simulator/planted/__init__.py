"""The planted bugs: each a small change of production code that leaves out, or turns around, one step on which an
invariant rests."""

from tests.simulator.planted import (
    attempting,
    backlogs,
    bounds,
    buffers,
    cells,
    chains,
    changes,
    creators,
    defaults,
    giving_way,
    groups,
    leases,
    overlaps,
    pauses,
    promises,
    reconciler,
    rows,
    slots,
    versions,
    watched,
    window,
    working,
)
from tests.simulator.planted.bug import Bug, Patch

PLANTED = (
    *leases.BUGS,
    *window.BUGS,
    *creators.BUGS,
    *chains.BUGS,
    *changes.BUGS,
    *attempting.BUGS,
    *slots.BUGS,
    *reconciler.BUGS,
    *backlogs.BUGS,
    *rows.BUGS,
    *bounds.BUGS,
    *versions.BUGS,
    *promises.BUGS,
    *watched.BUGS,
    *overlaps.BUGS,
    *defaults.BUGS,
    *buffers.BUGS,
    *giving_way.BUGS,
    *working.BUGS,
    *cells.BUGS,
    *pauses.BUGS,
    *groups.BUGS,
)

__all__ = ["PLANTED", "Bug", "Patch"]
