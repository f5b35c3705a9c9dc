"""Calendars: what they exclude, and where an excluded occurrence goes."""
