"""Exhaustive checks of the protocols, as small models: every interleaving, with a crash anywhere."""
