"""Pools of teams over HTTP."""
