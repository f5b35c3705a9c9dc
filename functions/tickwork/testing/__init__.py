"""For tests, ours and a team's: a kernel of virtual time, an in-memory store and queues, and faults to inject."""
