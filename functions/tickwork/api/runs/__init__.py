"""Runs over HTTP, as people and programs see them."""
