"""The one table of unit prices: list, on demand, without free tier, taxes or savings plans.

Owns when and where they hold. Refuses to know what uses them. The benchmarks price what they count by it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AS_OF: Final = "2026-11-30"
REGION: Final = "us-east-1"

PER_MILLION: Final[Mapping[str, float]] = {
    "dynamodb_write_units": 0.625,
    "dynamodb_read_units": 0.125,
    "sqs_requests": 0.40,
    "sqs_fair_messages": 0.10,
    "lambda_requests": 0.20,
    "http_api_requests": 1.00,
    "scheduler_invocations": 1.00,
    "step_functions_transitions": 25.00,
    "xray_traces": 5.00,
}
PER_UNIT: Final[Mapping[str, float]] = {
    "lambda_gb_s": 0.0000133334,
    "logs_gb": 0.50,
    "dynamodb_storage_gb_month": 0.25,
    "dynamodb_pitr_gb_month": 0.20,
    "cloudwatch_alarm_month": 0.10,
    "cloudwatch_dashboard_month": 3.00,
    "cloudwatch_metric_month": 0.30,
    "secret_month": 0.40,
}
SOURCES: Final[Mapping[str, str]] = {
    "dynamodb": "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    "sqs": "https://aws.amazon.com/sqs/pricing/",
    "lambda": "https://aws.amazon.com/lambda/pricing/ (arm64)",
    "http_api": "https://aws.amazon.com/api-gateway/pricing/",
    "scheduler": "https://aws.amazon.com/eventbridge/pricing/",
    "step_functions": "https://aws.amazon.com/step-functions/pricing/ (standard workflows)",
    "cloudwatch": "https://aws.amazon.com/cloudwatch/pricing/",
    "secret": "https://aws.amazon.com/secrets-manager/pricing/",
    "xray": "https://aws.amazon.com/xray/pricing/",
}


def usd(amounts: Mapping[str, float]) -> float:
    """The price of some amounts. KeyError for a name that the table does not have."""
    return sum(
        amount * (PER_MILLION[name] / 1e6 if name in PER_MILLION else PER_UNIT[name])
        for name, amount in amounts.items()
    )
