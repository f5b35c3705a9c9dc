"""The store over DynamoDB. `testing/memory.py` interprets the same writes; one conformance suite holds both."""
