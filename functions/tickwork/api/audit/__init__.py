"""The audit over HTTP."""
