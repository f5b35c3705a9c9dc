"""Runs: one-shots, the worker's calls, how attempts end, pulling, pushing, cancelling, dead letters."""
