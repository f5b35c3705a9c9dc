"""The calls of workers over HTTP."""
