"""The quick run of the models: the designs hold, and each rule that is left out is missed."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.protocol import chain, overlap, window

MODELS = {window: 100_000, chain: 100_000, overlap: 60_000}
"""Each with the states that it explores at least: one that has shrunk holds for nothing."""


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__.rpartition(".")[2])
def test_the_protocol_holds_in_every_interleaving_with_a_crash_anywhere(model: ModuleType) -> None:
    verdict = model.check()
    assert not verdict.violated, verdict.state
    assert verdict.states > MODELS[model], "the model has shrunk: it explores less than it did"


@pytest.mark.parametrize(
    ("model", "variant"),
    [(model, variant) for model in MODELS for variant in model.CAUGHT],
    ids=lambda it: it if isinstance(it, str) else it.__name__.rpartition(".")[2],
)
def test_each_rule_is_needed_for_without_it_an_invariant_breaks(model: ModuleType, variant: str) -> None:
    assert model.check(variant).violated
