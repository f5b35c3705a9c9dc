"""Doing, in order: read, decide, commit, send. The only place where ports are called."""
