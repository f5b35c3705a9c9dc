"""The audit: reconciling what should be with what is, and reading what was."""
