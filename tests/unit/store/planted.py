"""Bugs of one line in the adapters, and whether the suite beside this catches each: `python -m tests.unit.store.planted`.

A bug is a text in `store/` or `aws/sqs.py` and what takes its place, each planted in a copy of the package of its own.
"""

# ruff: noqa: E501 - a bug reads as a pair, what is right and what is planted
from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "functions" / "tickwork"
SUITE = ("tests/unit/store/test_dynamodb_requests.py", "tests/unit/store/test_sqs_requests.py")
AT_ONCE = 2

PLANTED = (
    # reads
    ("Key=to_attributes(key),\n            ConsistentRead=True,", "Key=to_attributes(key),"),
    ('for key in keys], "ConsistentRead": True}}', "for key in keys]}}"),
    ('            "ConsistentRead": True,\n            "Limit": limit,', '            "Limit": limit,'),
    ('wanted = answer.get("UnprocessedKeys")', "wanted = None"),
    ("            if not wanted:\n                return items", "            return items"),
    (
        "batch_get_item, RequestItems=wanted)",
        'batch_get_item, RequestItems={name: {"Keys": [to_attributes(key) for key in keys], "ConsistentRead": True}})',
    ),
    ("BATCH_GET_MAX = 100", "BATCH_GET_MAX = 101"),
    ("keys[begin : begin + BATCH_GET_MAX]", "keys[begin : begin + BATCH_GET_MAX - 1]"),
    ("BATCH_GET_ROUNDS_MAX = 8", "BATCH_GET_ROUNDS_MAX = 3"),
    (
        '        raise Throttled(f"{name}: keys were left',
        '        return items\n        raise Throttled(f"{name}: keys were left',
    ),
    ("found[table.key_of(item)] = item", 'found[str(item[table.partition_key]), ""] = item'),
    (
        "return Page(items, None if more is None or table.sort_key is None",
        "return Page(items, None if more is None or len(items) < limit",
    ),
    (
        "return Page(items, None if more is None or table.sort_key is None",
        "return Page(items, None if more is None or not items",
    ),
    ('"#p = :p AND #s BETWEEN :first AND :last"', '"#p = :p AND #s >= :first AND #s < :last"'),
    (
        "table.partition_key: partition, table.sort_key: after})",
        "table.partition_key: partition, table.sort_key: first})",
    ),
    ('"ScanIndexForward": not descending', '"ScanIndexForward": descending'),
    (
        '            "ScanIndexForward": not descending,\n            "Limit": limit,\n        }\n        if after is not None:',
        '            "ScanIndexForward": not descending,\n            "Limit": limit,\n        }\n        if after is None:',
    ),
    (
        'answer["Items"]], from_attributes(more) if more else None\n\n    def scan',
        'answer["Items"]], from_attributes(more) if more and answer["Items"] else None\n\n    def scan',
    ),
    (
        '{"TableName": self.table_name(table), "Limit": limit}\n        if after',
        '{"TableName": self.table_name(table)}\n        if after',
    ),
    ("| ({table.sort_key: sort} if table.sort_key else {})", ""),
    # writes
    ("TransactItems=items, ClientRequestToken=self._token())", "TransactItems=items)"),
    ("ClientRequestToken=self._token())", 'ClientRequestToken="token-1")'),
    ('request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"', "pass"),
    ('rendered["ReturnValues"] = "ALL_NEW"', 'rendered["ReturnValues"] = "UPDATED_NEW"'),
    ("if not isinstance(write.condition, Anyway):", "if not isinstance(write.condition, Anyway | Absent):"),
    ("attribute_not_exists({self._name(table.partition_key)})", "attribute_exists({self._name(table.partition_key)})"),
    ("{self._name(attribute)} < {self._value(value)}", "{self._name(attribute)} <= {self._value(value)}"),
    ('self._joined(" OR ", conditions, table)', 'self._joined(" AND ", conditions, table)'),
    (
        'return "(" + word.join(self.condition(one, table) for one in conditions) + ")"',
        "return word.join(self.condition(one, table) for one in conditions)",
    ),
    (
        "list_append(if_not_exists({mark}, {self._value([])}), {self._value(more)})",
        "list_append({self._value(more)}, if_not_exists({mark}, {self._value([])}))",
    ),
    ('return self._names.setdefault(name, f"#n{len(self._names)}")', 'return self._names.setdefault(name, "#n0")'),
    # what errors mean
    (
        '_TRANSIENT_REASONS = {"TransactionConflict": Conflict,',
        '_TRANSIENT_REASONS = {"TransactionConflict": Throttled,',
    ),
    (
        '_TRANSIENT_REASONS["ProvisionedThroughputExceeded"] = Throttled',
        '_TRANSIENT_REASONS["ProvisionedThroughputExceeded"] = Conflict',
    ),
    ("    for reason in reasons:\n        transient", "    for reason in reasons[:1]:\n        transient"),
    ("if others or not failed:", "if not failed:"),
    ("if others or not failed:", "if others:"),
    ('    "RequestLimitExceeded",\n', ""),
    ('"TransactionConflictException", "TransactionInProgressException"', '"TransactionConflictException", "x"'),
    ("if code in _UNKNOWN or status >= 500:", "if code in _UNKNOWN:"),
    (
        "        except (ConnectionFailed, HTTPClientError) as error:\n            raise OutcomeUnknown(str(error)) from error\n        return Committed()",
        "        except (ConnectionFailed, HTTPClientError) as error:\n            raise Conflict(str(error)) from error\n        return Committed()",
    ),
    (
        "raise OutcomeUnknown(str(error)) from error\n        return Committed(from",
        "raise Throttled(str(error)) from error\n        return Committed(from",
    ),
    (
        "except (ConnectionFailed, HTTPClientError) as error:\n            raise Throttled(str(error)) from error\n",
        "except ConnectionFailed as error:\n            raise Throttled(str(error)) from error\n",
    ),
    (
        "raise (Throttled(str(error)) if isinstance(failure, OutcomeUnknown) else failure) from error",
        "raise failure from error",
    ),
    (
        'reason["Item"]) if reason.get("Item") else None',
        'reason["Item"]) if reason.get("Item") and index == 0 else None',
    ),
    (
        'return int(value) if value.lstrip("-").isdigit() else float(value)',
        "return int(value) if value.isdigit() else float(value)",
    ),
    # queues
    ("BATCH_MESSAGES_MAX = 10", "BATCH_MESSAGES_MAX = 11"),
    ("BATCH_BYTES_MAX = 250_000", "BATCH_BYTES_MAX = 1_000_000"),
    ("length = len(message.body.encode())", "length = len(message.body)"),
    ("size + length > BATCH_BYTES_MAX", "size > BATCH_BYTES_MAX"),
    ("batch, size = [], 0\n        batch.append", "batch = []\n        batch.append"),
    ("    if batch:\n        yield batch", "    if len(batch) > 1:\n        yield batch"),
    ("failed += [batch[i] for i in report.failed]", "failed += report.failed"),
    ("refused += [(batch[i], reason) for", "refused += [(i, reason) for"),
    (
        "if i not in sent and i not in at_fault)",
        'if any(int(entry["Id"]) == i for entry in answer.get("Failed", [])) and i not in at_fault)',
    ),
    ('if entry.get("SenderFault") and "hrottl" not in entry.get("Code", "")', 'if entry.get("SenderFault")'),
    ('if entry.get("SenderFault") and "hrottl" not in', 'if "hrottl" not in'),
    ('"DelaySeconds": message.delay_s}', '"DelaySeconds": 0}'),
    ('{"MessageGroupId": message.group} if message.group else {}', "{}"),
    (
        '_NO_QUEUE = {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"}',
        '_NO_QUEUE = {"QueueDoesNotExist"}',
    ),
    ("    if code in _NO_QUEUE:", '    if code in _NO_QUEUE or "AccessDenied" in code:'),
    (
        "            WaitTimeSeconds=wait_s,\n            VisibilityTimeout=hide_s,",
        "            WaitTimeSeconds=wait_s,",
    ),
    ("            MaxNumberOfMessages=limit,", "            MaxNumberOfMessages=10,"),
    ("if queue not in self._urls:", "if True:"),
)


def main() -> None:
    caught = 0
    with ThreadPoolExecutor(AT_ONCE) as some:
        for number, ((right, wrong), found) in enumerate(zip(PLANTED, some.map(_is_caught, PLANTED), strict=True), 1):
            caught += found
            verdict = "caught" if found else f"MISSED: {right!r} -> {wrong!r}"
            print(f"{number:3} {verdict}", flush=True)
    print(f"planted {len(PLANTED)}, caught {caught}")
    sys.exit(caught < len(PLANTED))


def _is_caught(bug: tuple[str, str]) -> bool:
    right, wrong = bug
    with tempfile.TemporaryDirectory(prefix="tickwork-planted-") as directory:
        functions = Path(directory) / "functions"
        shutil.copytree(ROOT / "functions", functions, ignore=shutil.ignore_patterns("__pycache__"))
        _plant(functions / "tickwork", right, wrong)
        paths = f"pythonpath={functions} {ROOT}"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", paths, *SUITE]
        ran = subprocess.run(command, cwd=ROOT, env=_environ(functions), capture_output=True, text=True, timeout=300)
    if ran.returncode > 1:
        raise RuntimeError(f"{right!r} -> {wrong!r} was not tested: {ran.stdout[-1_000:]}{ran.stderr[-1_000:]}")
    return ran.returncode == 1


def _environ(functions: Path) -> dict[str, str]:
    import os

    return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{functions}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}


def _plant(package: Path, right: str, wrong: str) -> None:
    """In the one place where the text stands, whichever file that is."""
    places = [
        path for path in (*(package / "store").glob("*.py"), package / "aws" / "sqs.py") if right in path.read_text()
    ]
    assert len(places) == 1, f"{right!r} stands in {len(places)} files"
    text = places[0].read_text()
    assert text.count(right) == 1, f"{right!r} stands {text.count(right)} times in {places[0].name}"
    places[0].write_text(text.replace(right, wrong))


if __name__ == "__main__":
    main()
