"""Accountability over HTTP: what jobs owe, and what has come of it."""
