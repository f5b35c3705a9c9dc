"""Cron: from the text of a person to fields, and from fields to wall times."""
