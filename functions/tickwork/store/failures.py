"""What DynamoDB's errors mean to a flow: try again, look what became of it, refused, or a fault of ours.

Owns the table of error codes. Makes no call. An error it does not know is ours: it is never taken for an answer.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, Throttled
from tickwork.core.ledger.writes import Refused
from tickwork.store.attributes import from_attributes

_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "LimitExceededException",
}
_UNKNOWN = {
    "InternalServerError",
    "ServiceUnavailable",
    "RequestTimeout",
    "InternalFailure",
    "500",
    "503",
    "504",
}
_TRANSIENT_REASONS = {"TransactionConflict": Conflict, "ThrottlingError": Throttled}
_TRANSIENT_REASONS["ProvisionedThroughputExceeded"] = Throttled


def refused(error: ClientError) -> Refused:
    """Take a cancelled transaction apart by its reasons. A transient one outweighs refusals: nothing is known yet
    of what the conditions would have said."""
    reasons: Any = error.response.get("CancellationReasons", [])
    for reason in reasons:
        transient = _TRANSIENT_REASONS.get(reason.get("Code", "None"))
        if transient is not None:
            raise transient(reason.get("Message", reason["Code"])) from error
    failed = {
        index: from_attributes(reason["Item"]) if reason.get("Item") else None
        for index, reason in enumerate(reasons)
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    others = [reason for reason in reasons if reason.get("Code") not in (None, "None", "ConditionalCheckFailed")]
    if others or not failed:
        raise InvariantViolated(f"a transaction was refused for a reason of ours: {others or error}") from error
    return Refused(failed)


def translated(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
    if code in _THROTTLED:
        return Throttled(str(error))
    if code in ("TransactionConflictException", "TransactionInProgressException"):
        return Conflict(str(error))
    if code in _UNKNOWN or status >= 500:
        return OutcomeUnknown(str(error))
    return InvariantViolated(f"DynamoDB refused a request of ours: {error}")
