"""What a Lambda's code asks of AWS, read from its source.

From the handler's module every reference to a function or class of the package is followed, and each place that
names a table, a queue or a secret in a call of the store, the sender or a client becomes the IAM action it needs. It
errs on the side of too much (a branch that is never taken counts), never of too little, as long as writes are made by
the constructors of `core/ledger/writes.py` and queues are named by `core/ledger/queues.py`: the test plants both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"

READS = {
    "get": "dynamodb:GetItem",
    "get_many": "dynamodb:BatchGetItem",
    "query": "dynamodb:Query",
    "query_index": "dynamodb:Query",
    "scan": "dynamodb:Scan",
}
READING = "tickwork.flows.ledger.reading"
READERS = {"read_many": "get_many", "pages": "query", "scan_pages": "scan"}
"""The reading room's calls that are told the table: what they ask of the store is counted where they are called."""
WALL = "tickwork.flows.access.walled"
"""A store over a store: what is asked of it is counted where it is asked."""
WRITES = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "Check": "dynamodb:ConditionCheckItem",
}
SENDERS = {"_send_patiently"}
QUEUE_CALLS = {"change_message_visibility": "sqs:ChangeMessageVisibility"}
RECEIVES = {
    "receive": "sqs:ReceiveMessage",
    "hide": "sqs:ChangeMessageVisibility",
    "delete": "sqs:DeleteMessage",
}
PAGES = (
    "sns:CreateTopic", "sns:SetTopicAttributes", "sns:Publish", "sns:Subscribe", "sns:ListSubscriptionsByTopic",
)  # fmt: skip
"""What a page by topic or e-mail takes (`aws/paging.py`)."""
TEAMS_TOPICS = "pager-*"
TEAMS_POOLS = "ready-*_*"
"""Whoever sends to a ready queue, or receives from one, reaches those that teams have made too."""
MADE = {
    "make": (
        "queues",
        TEAMS_POOLS,
        ("sqs:CreateQueue", "sqs:GetQueueUrl", "sqs:SetQueueAttributes", "sqs:GetQueueAttributes"),
    ),
    "waiting": ("queues", TEAMS_POOLS, ("sqs:GetQueueUrl", "sqs:GetQueueAttributes")),
    "remove": ("queues", TEAMS_POOLS, ("sqs:GetQueueUrl", "sqs:DeleteQueue")),
    "page": ("pager", TEAMS_TOPICS, PAGES),
}
"""Calls of ports: the port, on what, and what each takes."""
SECRET_CALLS = {"get_secret_value": "secretsmanager:GetSecretValue"}
QUEUES = {"TICKS_QUEUE": "ticks", "ready_queue": "ready-*"}
PUSH_SECRET = "push-secret"
"""The only secret there is."""
URL_OF_QUEUE = "sqs:GetQueueUrl"
"""Whoever calls a queue asks for its URL by name first."""

type Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
type Need = tuple[str, str]
"""(action, resource): a table's constant (`TIMERS`), an index of it (`TIMERS/BY_JOB`), a queue, or the secret."""


def needs_of(handler: str) -> set[Need]:
    """The actions the code behind `functions/<handler>/handler.py` may call, and on what."""
    found: set[Need] = set()
    for module, node in reachable(f"{handler}.handler"):
        found |= _needs_in(module, node)
    return found


def reachable(entry: str) -> Iterator[tuple[str, ast.AST]]:
    """Every definition that the entry module's code leads to, with the module it stands in."""
    todo: list[tuple[str, str]] = [(entry, "")]
    seen: set[tuple[str, str]] = set()
    while todo:
        module, name = todo.pop()
        if (module, name) in seen:
            continue
        seen.add((module, name))
        node = _source(module) if not name else _definitions(module)[name]
        yield module, node
        todo += [target for target in _references(module, node, entry) if target not in seen]


def _references(module: str, node: ast.AST, entry: str) -> Iterator[tuple[str, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield from _resolve(module, inner.id)
        elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            target = _imports(module).get(inner.value.id)
            if target is not None and _is_module(".".join(target).strip(".")):
                yield from _resolve(".".join(target).strip("."), inner.attr)


def _resolve(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Where a name leads: a definition here, or one that was imported (perhaps through another module)."""
    if name in _definitions(module):
        yield module, name
    elif name in _imports(module):
        origin, original = _imports(module)[name]
        if _is_module(origin) and original:
            yield from _resolve(origin, original)


def _needs_in(module: str, node: ast.AST) -> set[Need]:
    if isinstance(node, ast.Module):
        return set()  # its functions are reached one by one
    if module == WALL or (module == READING and getattr(node, "name", "") in READERS):
        return set()
    found: set[Need] = set()
    queues = {QUEUES[inner.id] for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id in QUEUES}
    for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in READS and _is_port(call.func, "store"):
            found.add((READS[name], _resource(call)))
        elif name in READERS and _is_reader(module, call.func):
            found.add((READS[READERS[name]], _constant(call.args[1])))
        elif name in WRITES and isinstance(call.func, ast.Name) and _is_write(module, name):
            found.add((WRITES[name], _constant(call.args[0])))
        elif name in SENDERS:
            found |= {(action, queue) for queue in queues for action in ("sqs:SendMessage", URL_OF_QUEUE)}
        elif name in QUEUE_CALLS:
            found |= {(action, queue) for queue in queues for action in (QUEUE_CALLS[name], URL_OF_QUEUE)}
        elif name in SECRET_CALLS:
            found.add((SECRET_CALLS[name], PUSH_SECRET))
        elif name in MADE and _is_port(call.func, MADE[name][0]):
            found |= {(action, MADE[name][1]) for action in MADE[name][2]}
        elif name in RECEIVES and _is_port(call.func, "receiver"):
            found |= {(action, queue) for queue in queues for action in (RECEIVES[name], URL_OF_QUEUE)}
    return found


def _is_port(func: ast.expr, port: str) -> bool:
    """Whether this is a call like `ports.store.get`."""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute) and func.value.attr == port


def _is_reader(module: str, func: ast.expr) -> bool:
    """Whether this is a call like `read_many` or `reading.read_many`."""
    if isinstance(func, ast.Name):
        return module == READING or _imports(module).get(func.id) == (READING, func.id)
    is_attribute = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
    return is_attribute and ".".join(_imports(module).get(func.value.id, ("", ""))) == READING


def _is_write(module: str, name: str) -> bool:
    return _imports(module).get(name) == ("tickwork.core.ledger.writes", name)


def _resource(call: ast.Call) -> str:
    table = _constant(call.args[0])
    is_index = isinstance(call.func, ast.Attribute) and call.func.attr == "query_index"
    return f"{table}/{_constant(call.args[1])}" if is_index else table


def _constant(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise AssertionError(f"line {node.lineno}: name the table by its constant, so that its grant can be checked")
    return node.id


# --- modules ----------------------------------------------------------------------------------------------------


def _path(module: str) -> Path:
    path = FUNCTIONS.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _is_module(module: str) -> bool:
    return bool(module) and _path(module).is_file()


@cache
def _source(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


@cache
def _definitions(module: str) -> dict[str, Definition]:
    """Functions, classes and constants: a table of routes leads to its handlers."""
    found: dict[str, Definition] = {}
    for node in _source(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Local name -> (module, name there); the second is empty for an imported module."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(_source(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {(alias.asname or alias.name): (node.module, alias.name) for alias in node.names}
    return found
