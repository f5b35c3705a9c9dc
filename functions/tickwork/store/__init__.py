"""Two interpreters of the same writes: the in-memory store and the DynamoDB one. One conformance suite holds both."""
