"""Tables put back to an earlier moment, on the local endpoint: `make restore-test`."""
