"""The reconciler's entry point: a package, so that import-linter finds this one and no other of its name."""
