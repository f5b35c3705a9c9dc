"""API keys over HTTP."""
