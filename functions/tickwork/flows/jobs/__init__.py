"""Jobs: registering, changing and pausing them; calendars."""
