"""Cells and placements over HTTP."""
