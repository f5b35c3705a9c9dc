"""One-shot timers over HTTP."""
