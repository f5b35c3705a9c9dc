"""Jobs: what a team has registered, its occurrences, its changes and pauses."""
