"""The deterministic simulator: one seed, one history, of the production code under faults.

Owns virtual time, the simulated ports, the faults, the checkers of the invariants and the planted bugs.
Refuses to know how the flows work: it runs them, parks them at every port call, and looks at what they wrote.
See docs/simulation.md.
"""
