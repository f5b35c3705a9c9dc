"""Groups over HTTP."""
