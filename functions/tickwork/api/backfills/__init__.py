"""Backfills of jobs over HTTP."""
