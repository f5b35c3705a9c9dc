"""Holds a worker of any language against the wire protocol (docs/worker-protocol.md).

    python -m tickwork.conformance.worker --command "tickwork worker tickwork.conformance.jobs:app --pool conformance"

It plays the platform on 127.0.0.1: the API, the pool's SQS queue, and a place where the job reports what it does.
Needs the standard library alone.
"""
