"""What people do to jobs and timers, and what then happens: the table of docs/what-happens.md cell by cell, and random
sequences of requests against a small model of what the answers promised."""
