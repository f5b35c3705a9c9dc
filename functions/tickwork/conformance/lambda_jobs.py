"""The job `conformance` as a Lambda function."""

from __future__ import annotations

from tickwork.conformance.jobs import app
from tickwork.worker.lambdas import lambda_handler

handler = lambda_handler(app)
