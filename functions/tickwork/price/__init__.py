"""What tickwork costs for a load: unit prices, and how much of what a month uses. Pure; no function ships with it."""
