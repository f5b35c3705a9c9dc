"""A local AWS endpoint, and the stacks deployed onto it: for the end-to-end tests and for measurements."""
