"""`python -m tests.protocol`: every model as designed, and without each of its rules."""

from __future__ import annotations

import sys

from tests.protocol import chain, overlap, window


def main() -> int:
    """Print each verdict; 1 when the design does not hold, or a variant that must be caught is not."""
    wrong = 0
    for model in (window, chain, overlap):
        name = model.__name__.rpartition(".")[2]
        for variant in ("", *model.CAUGHT):
            larger = model is overlap and not variant
            verdict = overlap.check(worlds=overlap.LARGER) if larger else model.check(variant)
            wrong += bool(verdict.violated) != bool(variant)
            outcome = f"violated: {verdict.violated}" if verdict.violated else "holds"
            print(f"{name:8s} {variant or 'as designed':58s} {verdict.states:9,d} states  {outcome}", flush=True)
            if verdict.violated and not variant:
                print("  ", verdict.state)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
