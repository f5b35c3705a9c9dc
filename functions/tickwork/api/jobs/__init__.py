"""Registered jobs over HTTP, and previews of schedules."""
