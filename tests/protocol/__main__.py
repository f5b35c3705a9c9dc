"""`python -m tests.protocol`: every model as designed, and without each of its rules. `--larger`: the window's with all
that may happen to it in one world, a minute more."""

from __future__ import annotations

import sys
from types import ModuleType

from tests.protocol import chain, overlap, window
from tests.protocol.explore import Verdict


def main() -> int:
    """Print each verdict; 1 when the design does not hold, or a variant that must be caught is not."""
    wrong = 0
    for model in (window, chain, overlap):
        name = model.__name__.rpartition(".")[2]
        for variant in ("", *model.CAUGHT):
            verdict = _largest(model) if not variant else model.check(variant)
            wrong += bool(verdict.violated) != bool(variant)
            outcome = f"violated: {verdict.violated}" if verdict.violated else "holds"
            print(f"{name:8s} {variant or 'as designed':58s} {verdict.states:9,d} states  {outcome}", flush=True)
            if verdict.violated and not variant:
                print("  ", verdict.state)
    return int(wrong > 0)


def _largest(model: ModuleType) -> Verdict:
    """The design, in the largest world that a model has."""
    if model is overlap:
        return overlap.check(worlds=overlap.LARGER)
    return window.check(larger="--larger" in sys.argv) if model is window else chain.check()


if __name__ == "__main__":
    sys.exit(main())
