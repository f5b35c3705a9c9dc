"""All scenarios of the wire protocol, in the order of a report."""

from __future__ import annotations

from tickwork.conformance import lease_rules, outcome_rules

SCENARIOS = (*outcome_rules.SCENARIOS, *lease_rules.SCENARIOS)
