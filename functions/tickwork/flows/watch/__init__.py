"""Telling owners what they have to know, and judging who is silent."""
