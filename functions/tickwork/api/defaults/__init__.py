"""The platform's defaults over HTTP."""
