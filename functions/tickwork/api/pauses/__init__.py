"""Pauses of teams, pools and the cell over HTTP."""
