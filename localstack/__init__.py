"""A local AWS endpoint for the end-to-end tests."""
