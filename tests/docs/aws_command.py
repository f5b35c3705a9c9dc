"""`aws`, as far as the pages use it, for machines without it: what AWS's command line makes of its words by the models
of botocore, which both have. A service, an operation or a parameter that a model does not have is refused.

Left out: every shorthand but text, numbers, flags, lists, JSON and `file://`; every output but JSON and text. Of the
commands that are no operations it has `logs tail`, of version 2. `E2E_AWS=/path/to/aws` lets the tests take the real
one.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import botocore.session
import jmespath
from botocore import xform_name

RENAMED = {"notification-endpoint": "endpoint"}
"""Parameters that AWS's command line calls otherwise than the model: each of them is a name of its own, too."""
_SINCE_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def main(words: Sequence[str]) -> None:
    service, operation, *rest = words
    options = dict(_options(rest))
    if (service, operation) == ("logs", "tail"):
        tail(rest[0], options)
        return
    query, output = options.pop("query", ""), options.pop("output", "json")
    answer = call(service, operation, options)
    answer.pop("ResponseMetadata", None)
    found = jmespath.search(query, answer) if query else answer
    print("\n".join(_text(found)) if output == "text" else json.dumps(found, indent=4, default=str))


def call(service: str, operation: str, options: dict[str, str]) -> dict[str, Any]:
    client = botocore.session.get_session().create_client(service)
    method = operation.replace("-", "_")
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    members = model.input_shape.members if model.input_shape else {}
    known = {xform_name(name, "-"): (name, shape) for name, shape in members.items()}
    given = {}
    for word, text in options.items():
        option = RENAMED.get(word, word)
        name, shape = known[option.removeprefix("no-") if option not in known else option]
        given[name] = _value(shape.type_name, text, is_no=option not in known)
    if client.can_paginate(method):
        return dict(client.get_paginator(method).paginate(**given).build_full_result())
    return dict(getattr(client, method)(**given))


def tail(group: str, options: dict[str, str]) -> None:
    number, unit = re.fullmatch(r"(\d+)([smhd])", options.pop("since", "10m")).groups()  # type: ignore[union-attr]
    assert options.pop("format") == "short"
    since_ms = int((time.time() - int(number) * _SINCE_S[unit]) * 1_000)
    asked = {"logGroupName": group, "startTime": since_ms, "filterPattern": options.pop("filter-pattern")}
    assert not options, options
    client = botocore.session.get_session().create_client("logs")
    for event in client.get_paginator("filter_log_events").paginate(**asked).search("events[]"):
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(event["timestamp"] / 1_000))
        print(f"{at} {event['message'].rstrip()}")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        if word.startswith("--"):
            after = words[place + 1 : place + 2]
            yield word[2:], after[0] if after and not after[0].startswith("--") else ""


def _value(kind: str, text: str, *, is_no: bool) -> Any:
    if kind == "boolean":
        return not is_no
    if text.startswith("file://"):
        text = Path(text.removeprefix("file://")).read_text(encoding="utf-8")
    if kind in ("structure", "map") or text.startswith("["):
        return json.loads(text)
    if kind == "list":
        return text.split()
    return int(text) if kind in ("integer", "long") else text


def _text(found: Any) -> Iterator[str]:
    """As `--output text`: a line for each row, tabs between."""
    if not isinstance(found, list):
        yield "None" if found is None else str(found)
    elif any(isinstance(one, list) for one in found):
        for row in found:
            yield "\t".join("None" if one is None else str(one) for one in row)
    elif found:
        yield "\t".join(str(one) for one in found)


if __name__ == "__main__":
    main(sys.argv[1:])
