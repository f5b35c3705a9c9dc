"""What the watchdog decides: by when a success must have come, and what becomes of an incident."""
