"""Dispatch: slices and their leases, the backlog, the chain of a recurring job."""
