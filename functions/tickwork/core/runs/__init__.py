"""Runs: attempts and how they end, retries, slots, cancellations, replays, pushes."""
