"""Calendars over HTTP."""
